//go:build linux

package linux

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// runVariable marks the processes of one run in their environment.
const runVariable = host.ServiceRunVariable

// run is the last run of a service as it is kept. It is written before the process
// is made, with the mark alone, and again with its number: a start that was
// interrupted between the two is found by the mark.
type run struct {
	Mark    string    `json:"mark"`
	Process processID `json:"process,omitzero"`
}

// process returns the last process of a service and whether it runs.
func (h *Host) process(name string) (processID, bool, error) {
	var r run
	err := readJSON(h.serviceFile(name, runExt), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return processID{}, false, nil
	}
	if err != nil {
		return processID{}, false, err
	}
	if r.Process.PID == 0 {
		return leaderWithEnv(runVariable + "=" + r.Mark)
	}
	h.reap()
	up, err := r.Process.alive()
	return r.Process, up, err
}

// reap takes the ends of the processes that this one started. Those of others are
// reaped by whoever started them or, after that one's end, by init.
func (h *Host) reap() {
	h.childMu.Lock()
	defer h.childMu.Unlock()
	for id, c := range h.children {
		if c.ended {
			continue
		}
		var status unix.WaitStatus
		var pid int
		err := ignoringEINTR(func() (err error) {
			pid, err = unix.Wait4(id.PID, &status, unix.WNOHANG, nil)
			return err
		})
		switch {
		case err != nil: // reaped elsewhere in this process: the code is not known
			delete(h.children, id)
		case pid == id.PID && status.Exited():
			c.ended, c.code = true, status.ExitStatus()
		case pid == id.PID && status.Signaled():
			c.ended, c.code = true, 128+int(status.Signal()) // as shells tell it
		}
	}
}

// exitCode is that of a process that was started, and reaped, here; else 0.
func (h *Host) exitCode(id processID) int {
	h.reap()
	h.childMu.Lock()
	defer h.childMu.Unlock()
	if c := h.children[id]; c != nil {
		return c.code
	}
	return 0
}
