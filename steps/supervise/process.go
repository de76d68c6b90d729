package supervise

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// pipeGrace is how long to wait for output from processes that a program left running.
const pipeGrace = 2 * time.Second

// process is one run of a program, with its children.
type process struct {
	cmd   *exec.Cmd
	tree  tree
	ended chan struct{}
	err   error // of the end; read once ended is closed
}

// startProcess starts command, held by t, with its output to out. env nil and dir
// "" are this process's.
func startProcess(command, env []string, dir string, out io.Writer, t tree) (*process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = pipeGrace
	p := &process{cmd: cmd, tree: t, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// One goroutine from start to end: on Linux a child may die with the thread that started it (see
		// tree.start).
		defer unlocked()()
		err := p.tree.start(cmd)
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) Ended() <-chan struct{} { return p.ended }
func (p *process) Interrupt() error       { return p.tree.interrupt(p.cmd.Process) }
func (p *process) Kill() error            { return p.tree.kill(p.cmd.Process) }
func (p *process) Release() error         { return p.tree.release() }

func (p *process) String() string {
	return fmt.Sprintf("%s, process %d", p.cmd.Path, p.cmd.Process.Pid)
}

func (p *process) Result() string {
	if p.err == nil || errors.Is(p.err, exec.ErrWaitDelay) {
		return p.cmd.ProcessState.String()
	}
	return p.err.Error()
}
