//go:build linux

package linux

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processID identifies a process forever: a number may be reused after the process ends, but not with the
// same start time and boot.
type processID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// processes are the numbers of all processes, ascending.
func processes() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if err = joined(err, d.Close()); err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw)), err
}

// processStat is what /proc/PID/stat says (proc_pid_stat(5)).
type processStat struct {
	state   byte
	parent  int
	group   int
	session int
	threads int
	start   uint64
}

// ended reports whether the process has ended: it waits to be reaped (Z) or is being removed (X), and only
// its first thread is left.
func (s processStat) ended() bool { return (s.state == 'Z' || s.state == 'X') && s.threads <= 1 }

// readStat is fs.ErrNotExist when there is no such process.
func readStat(pid int) (processStat, error) {
	raw, err := os.ReadFile(procPath(pid, "stat"))
	if errors.Is(err, unix.ESRCH) {
		return processStat{}, fs.ErrNotExist
	}
	if err != nil {
		return processStat{}, err
	}
	// The name, in parentheses, may itself hold spaces and parentheses.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 20 {
		return processStat{}, fmt.Errorf("%s has %d fields", procPath(pid, "stat"), len(fields))
	}
	s := processStat{state: fields[0][0]}
	var errs [5]error
	s.group, errs[0] = strconv.Atoi(fields[2])
	s.session, errs[1] = strconv.Atoi(fields[3])
	s.threads, errs[2] = strconv.Atoi(fields[17])
	s.start, errs[3] = strconv.ParseUint(fields[19], 10, 64)
	s.parent, errs[4] = strconv.Atoi(fields[1])
	return s, errors.Join(errs[:]...)
}

// Runs reports whether a process of this number runs, of any user. A zombie does not; if it cannot be read,
// it counts as running.
func Runs(pid int) bool {
	s, err := readStat(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || !s.ended()
}

// identify returns the full name of a process that is there, ended or not.
func identify(pid int) (processID, error) {
	boot, err := bootID()
	if err != nil {
		return processID{}, err
	}
	s, err := readStat(pid)
	return processID{PID: pid, Start: s.start, Boot: boot}, err
}

// alive reports whether exactly this process runs. A zombie does not.
func (p processID) alive() (bool, error) {
	if p.PID == 0 {
		return false, nil
	}
	boot, err := bootID()
	if err != nil || boot != p.Boot {
		return false, err
	}
	s, err := readStat(p.PID)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && s.start == p.Start && !s.ended(), err
}

// groupAlive reports whether any process of the group that p leads, or led, runs.
func (p processID) groupAlive() (bool, error) {
	boot, err := bootID()
	if err != nil || boot != p.Boot || p.PID == 0 {
		return false, err
	}
	leader, err := readStat(p.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist): // others of the group may be left
	case err != nil:
		return false, err
	case leader.start != p.Start: // a number is given again only once its group is empty
		return false, nil
	case !leader.ended():
		return true, nil
	}
	pids, err := processes()
	if err != nil {
		return false, err
	}
	for _, pid := range pids {
		s, err := readStat(pid)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err == nil && s.group == p.PID && s.session == p.PID && !s.ended() {
			return true, nil
		}
	}
	return false, nil
}

// leaderWithEnv finds the oldest session leader whose environment, as it was
// started, holds entry.
func leaderWithEnv(entry string) (processID, bool, error) {
	pids, err := processes()
	if err != nil {
		return processID{}, false, err
	}
	var found processID
	for _, pid := range pids {
		s, err := readStat(pid)
		if err != nil || s.session != pid || s.ended() {
			continue
		}
		raw, err := os.ReadFile(procPath(pid, "environ"))
		if err != nil || !bytes.Contains(append([]byte{0}, raw...), []byte("\x00"+entry+"\x00")) {
			continue // gone, or another account's
		}
		if found.PID == 0 || s.start < found.Start {
			found = processID{PID: pid, Start: s.start}
		}
	}
	if found.PID == 0 {
		return found, false, nil
	}
	found.Boot, err = bootID()
	return found, err == nil, err
}
