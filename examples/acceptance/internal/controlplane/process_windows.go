package controlplane

import (
	"os"
	"os/exec"
)

// exe ends the name of a program.
const exe = ".exe"

// bind does nothing: Stop ends the programs, or the machine does.
func bind(*exec.Cmd) {}

// terminate ends a program: there is no signal for it.
func terminate(p *os.Process) { _ = p.Kill() } // it may have ended
