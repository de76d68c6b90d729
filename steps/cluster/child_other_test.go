//go:build !linux

package cluster

import "syscall"

func childAttr() *syscall.SysProcAttr { return nil }
