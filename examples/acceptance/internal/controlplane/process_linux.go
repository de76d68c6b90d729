package controlplane

import (
	"os"
	"os/exec"
	"syscall"
)

// exe ends the name of a program.
const exe = ""

// bind ends a program with the one that starts it.
func bind(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// terminate has a program end itself.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) } // it may have ended
