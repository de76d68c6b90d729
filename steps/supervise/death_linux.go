package supervise

import "syscall"

// endWithParent lets the program end when its supervisor is killed.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
