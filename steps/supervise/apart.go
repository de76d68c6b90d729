package supervise

import (
	"os"
	"os/exec"
)

// Apart starts a program that goes on when this process ends, with its output to out and no input. env nil is this
// process's. ended has one error, that of the program's end; nil = exit code 0.
func Apart(command, env []string, out *os.File) (ended <-chan error, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	cmd.SysProcAttr = ownSession()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // it ends with the program
	return done, nil
}
