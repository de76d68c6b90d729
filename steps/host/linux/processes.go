//go:build linux

package linux

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nodejoin/steps/wait"
)

// deletedMark ends the name of a program whose file is gone (proc_pid_exe(5)).
const deletedMark = " (deleted)"

// Processes lists the other processes that run a program.
func (h *Host) Processes(ctx context.Context, program string) ([]int, error) {
	const op = "list processes of"
	if ctx.Err() != nil {
		return nil, failed(op, program, context.Cause(ctx))
	}
	running, err := running(program)
	var out []int
	for _, p := range running {
		out = append(out, p.PID)
	}
	return out, failed(op, program, err)
}

// running are the other processes that run a program, ascending.
func running(program string) ([]processID, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(program))
	if errors.Is(err, fs.ErrNotExist) {
		dir, err = filepath.Dir(program), nil
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, filepath.Base(program))
	pids, err := processes()
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	var out []processID
	for _, pid := range pids {
		exe, err := os.Readlink(procPath(pid, "exe"))
		if pid == os.Getpid() || err != nil || strings.TrimSuffix(exe, deletedMark) != path {
			continue // a thread of the kernel, gone, or another account's, which is not root's
		}
		if s, err := readStat(pid); err == nil && !s.ended() {
			out = append(out, processID{PID: pid, Start: s.start, Boot: boot})
		}
	}
	slices.SortFunc(out, func(a, b processID) int { return a.PID - b.PID })
	return out, nil
}

// EndProcesses kills the other processes that run a program, with those below them: the containers of a shim are its
// children, and would go on without it.
func (h *Host) EndProcesses(ctx context.Context, program string) error {
	const op = "end processes of"
	if ctx.Err() != nil {
		return failed(op, program, context.Cause(ctx))
	}
	var killed []processID
	return failed(op, program, wait.Until(ctx, time.Second, func() (bool, error) {
		roots, err := running(program)
		if err != nil {
			return false, err
		}
		tree, err := below(roots)
		if err != nil {
			return false, err
		}
		for _, p := range tree {
			if alive, err := p.alive(); err != nil || !alive {
				continue
			}
			if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return false, err
			}
		}
		killed = slices.DeleteFunc(append(killed, tree...), func(p processID) bool {
			alive, err := p.alive()
			return err == nil && !alive
		})
		return len(killed) == 0, nil
	}))
}

// below are processes and all that they have started, directly or not.
func below(roots []processID) ([]processID, error) {
	if len(roots) == 0 {
		return nil, nil
	}
	pids, err := processes()
	if err != nil {
		return nil, err
	}
	children := map[int][]processID{}
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil && !s.ended() {
			children[s.parent] = append(children[s.parent], processID{PID: pid, Start: s.start, Boot: roots[0].Boot})
		}
	}
	out := slices.Clone(roots)
	for i := 0; i < len(out); i++ {
		for _, c := range children[out[i].PID] {
			if c.PID != os.Getpid() && !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out, nil
}
