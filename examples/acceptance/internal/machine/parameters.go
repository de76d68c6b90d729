package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// sharedParameters are parameters that a kubelet sets and that no namespace separates (k8s.io/kubernetes
// pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables).
var sharedParameters = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

// lease is held by each machine as long as it may change the shared parameters. The first
// holder writes down what they are, the last one restores them, also if others were killed.
type lease struct {
	sys, notes string
	lock       *os.File
}

func holdParameters(sys, notes string) (l *lease, err error) {
	l = &lease{sys: sys, notes: notes}
	if l.lock, err = os.OpenFile(notes+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.lock.Close()
		}
	}()
	// It waits only while the last holder restores.
	if err := syscall.Flock(int(l.lock.Fd()), syscall.LOCK_SH); err != nil {
		return nil, err
	}
	if _, err := os.Stat(notes); !errors.Is(err, fs.ErrNotExist) {
		return l, err
	}
	values := map[string][]byte{}
	for _, name := range sharedParameters {
		if value, err := os.ReadFile(filepath.Join(sys, name)); err == nil {
			values[name] = value
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return l, os.WriteFile(notes, text, 0o600)
}

// release restores the parameters if no other machine may change them.
func (l *lease) release() error {
	defer l.lock.Close()
	err := syscall.Flock(int(l.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(l.notes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the one before was the last
	}
	if err != nil {
		return err
	}
	values := map[string][]byte{}
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	var errs []error
	for name, value := range values {
		path := filepath.Join(l.sys, name)
		if now, err := os.ReadFile(path); err == nil && !bytes.Equal(now, value) {
			errs = append(errs, os.WriteFile(path, value, 0o644))
		}
	}
	return errors.Join(append(errs, os.Remove(l.notes))...)
}
