//go:build unix && !linux

package supervise

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
