package node

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/supervise"
)

// maxRoundLog is the size, in bytes, from which the log of the rounds is begun again.
const maxRoundLog = 1 << 20

// startRound starts a round apart from this process. Its apply may restart this service, so it must not end with it.
func startRound(f steps.Follow) (ended <-chan error, err error) {
	if err := settle(f.Program); err != nil {
		return nil, err
	}
	if i, err := os.Stat(f.Log); err == nil && i.Size() > maxRoundLog {
		if err := os.Rename(f.Log, f.Log+".1"); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(f.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, host.ServiceRunVariable+"=")
	})
	return supervise.Apart([]string{f.Program, "follow", f.File}, env, log)
}

// settle removes the file of a program that an earlier round has replaced while it ran from it. If that round was
// killed before the new program was there, it restores the file.
func settle(program string) error {
	old := host.OldName(program)
	if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Lstat(program); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(old, program)
	}
	_ = os.Remove(old) // it may still run; the next round removes it
	return nil
}
