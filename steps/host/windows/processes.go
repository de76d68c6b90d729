//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/wait"
)

// process is a process as Windows lists it (PROCESSENTRY32W).
type process struct {
	pid, parent uint32
	name        string // of its file
}

// Processes lists the other processes that run a program.
func (h *Host) Processes(ctx context.Context, program string) ([]int, error) {
	const op = "list processes of"
	if ctx.Err() != nil {
		return nil, failed(op, program, context.Cause(ctx))
	}
	all, err := listProcesses()
	if err != nil {
		return nil, failed(op, program, err)
	}
	var out []int
	for _, p := range all {
		if p.pid == windows.GetCurrentProcessId() {
			continue
		}
		runs, err := p.runs(program)
		if err != nil {
			return nil, failed(op, program, err)
		}
		if runs {
			out = append(out, int(p.pid))
		}
	}
	slices.Sort(out)
	return out, nil
}

// EndProcesses kills the other processes that run a program, with those below them.
func (h *Host) EndProcesses(ctx context.Context, program string) error {
	const op = "end processes of"
	if ctx.Err() != nil {
		return failed(op, program, context.Cause(ctx))
	}
	return failed(op, program, wait.Until(ctx, time.Second, func() (bool, error) {
		all, err := listProcesses()
		if err != nil {
			return false, err
		}
		found := false
		for _, p := range all {
			if p.pid == windows.GetCurrentProcessId() {
				continue
			}
			runs, err := p.runs(program)
			if err == nil && runs {
				found, err = true, endTree(all, p)
			}
			if err != nil {
				return false, err
			}
		}
		return !found, nil
	}))
}

func listProcesses() (out []process, err error) {
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer windows.CloseHandle(list)
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(list, &entry); err == nil; err = windows.Process32Next(list, &entry) {
		out = append(out, process{entry.ProcessID, entry.ParentProcessID, windows.UTF16ToString(entry.ExeFile[:])})
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return out, nil
}

// runs reports whether the process runs the program of this path.
func (p process) runs(program string) (bool, error) {
	if !strings.EqualFold(p.name, filepath.Base(program)) {
		return false, nil
	}
	h, err := p.open(windows.PROCESS_QUERY_LIMITED_INFORMATION)
	if err != nil || h == 0 {
		return false, err
	}
	defer windows.CloseHandle(h)
	path := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(path))
	if err := windows.QueryFullProcessImageName(h, 0, &path[0], &size); err != nil {
		if errors.Is(err, windows.ERROR_GEN_FAILURE) { // it is ending
			return false, nil
		}
		return false, fmt.Errorf("read the program of process %d: %w", p.pid, err)
	}
	return strings.EqualFold(windows.UTF16ToString(path[:size]), filepath.Clean(program)), nil
}

// open opens the process; 0 = it has ended.
func (p process) open(rights uint32) (windows.Handle, error) {
	h, err := windows.OpenProcess(rights, false, p.pid)
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) { // there is no such process
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", p.pid, err)
	}
	return h, nil
}

// endTree kills a process, then those that it has started: a number may have been another process's before, so
// that only younger ones count.
func endTree(all []process, p process) error {
	began, err := p.end()
	if err != nil {
		return err
	}
	for _, child := range all {
		if child.parent != p.pid || child.pid == p.pid {
			continue
		}
		h, err := child.open(windows.PROCESS_QUERY_LIMITED_INFORMATION)
		if err != nil || h == 0 {
			continue // ended, or protected: not of a container
		}
		younger := !created(h).Before(began)
		_ = windows.CloseHandle(h)
		if younger && !began.IsZero() {
			if err := endTree(all, child); err != nil {
				return err
			}
		}
	}
	return nil
}

// killedBound is how long a killed process may take to be gone.
const killedBound = 10 * time.Second

// end kills the process and waits until it is gone; began is zero if it has ended before.
func (p process) end() (began time.Time, err error) {
	h, err := p.open(windows.PROCESS_TERMINATE | windows.PROCESS_QUERY_LIMITED_INFORMATION | windows.SYNCHRONIZE)
	if err != nil || h == 0 {
		return time.Time{}, err
	}
	defer windows.CloseHandle(h)
	began = created(h)
	killed := windows.TerminateProcess(h, 1)
	// One that ends by itself cannot be killed any more, and is waited for.
	if state, err := windows.WaitForSingleObject(h, uint32(killedBound.Milliseconds())); state != windows.WAIT_OBJECT_0 {
		return began, fmt.Errorf("process %d does not end: %w", p.pid, errors.Join(killed, err))
	}
	return began, nil
}

// created is when a process began, zero if that is not known.
func created(h windows.Handle) time.Time {
	var creation, exit, kernel, user windows.Filetime
	if windows.GetProcessTimes(h, &creation, &exit, &kernel, &user) != nil {
		return time.Time{}
	}
	return time.Unix(0, creation.Nanoseconds())
}
