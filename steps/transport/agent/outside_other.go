//go:build !windows

package agent

import "syscall"

// outside: only Windows has such jobs; tests run it elsewhere.
func outside() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
