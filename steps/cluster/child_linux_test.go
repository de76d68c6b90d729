package cluster

import "syscall"

// childAttr makes a component end with the test, however the test ends.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
