package main

import (
	"os/exec"
	"syscall"
)

// shell passes the line to cmd.exe unchanged: cmd.exe has its own quoting rules, so quoting as Go does would
// change the line.
func shell(line string) *exec.Cmd {
	cmd := exec.Command("cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /c "` + line + `"`}
	return cmd
}
