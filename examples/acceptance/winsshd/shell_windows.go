package main

import (
	"os/exec"
	"syscall"
)

// shell hands the line to cmd.exe unchanged: quoting it as Go quotes arguments
// would give cmd.exe, which has rules of its own, another line.
func shell(line string) *exec.Cmd {
	cmd := exec.Command("cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /c "` + line + `"`}
	return cmd
}
