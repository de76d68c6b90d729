package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"nodejoin/steps/host"
)

// stateDir holds what is not a file of the machine; no path of the machine leads there.
const stateDir = ".sandbox"

// state is everything of the machine that is no file. Maps are keyed by lower-case
// names on windows, where names have no case.
type state struct {
	BootTime time.Time                                `json:"boot_time,omitzero"`
	Factory  bool                                     `json:"factory,omitempty"` // the registry has what a fresh machine's has
	LastPID  int                                      `json:"last_pid,omitempty"`
	Access   map[string]host.Access                   `json:"access,omitempty"` // by key of the path; only others than the default
	Services map[string]*service                      `json:"services,omitempty"`
	Registry map[string]map[string]host.RegistryValue `json:"registry,omitempty"`
	Env      map[string]string                        `json:"env,omitempty"`
	Firewall map[string]host.FirewallRule             `json:"firewall,omitempty"`
	Networks map[string]host.HNSNetwork               `json:"networks,omitempty"`
	Lasting  []string                                 `json:"lasting,omitempty"`        // keys of networks that outlive boots
	Dynamic  map[string]host.PortRange                `json:"dynamic_ports,omitempty"`  // by protocol; only others than a fresh machine's
	Reserved map[string]host.PortRange                `json:"reserved_ports,omitempty"` // by their text
	Sysctls  map[string]string                        `json:"sysctls,omitempty"`        // only others than at boot
	Links    []string                                 `json:"links,omitempty"`          // interfaces that programs have made
	Chains   []host.FilterChain                       `json:"chains,omitempty"`         // that programs have made
	Tables   []host.FilterTable                       `json:"tables,omitempty"`         // of nftables, that programs have made
	Routes   []host.Route                             `json:"routes,omitempty"`         // that programs have made
	Modules  []string                                 `json:"modules,omitempty"`        // loaded
	Trusted  []string                                 `json:"trusted,omitempty"`        // sha256 of authorities
	Features map[string]host.FeatureState             `json:"features,omitempty"`       // only others than a fresh machine's
	HostName string                                   `json:"host_name,omitempty"`      // "" = as it came
	NextName string                                   `json:"next_name,omitempty"`      // after a boot; "" = HostName
	Noted    []string                                 `json:"noted,omitempty"`          // what needs a reboot
}

// service is a registered service and its last run.
type service struct {
	host.Service
	Ran   []string `json:"ran,omitempty"`    // the command it was started with; empty when stopped
	InUse []string `json:"in_use,omitempty"` // keys of the program files that run
}

func (s *state) init() {
	if s.Access == nil {
		s.Access = map[string]host.Access{}
	}
	if s.Services == nil {
		s.Services = map[string]*service{}
	}
	if s.Registry == nil {
		s.Registry = map[string]map[string]host.RegistryValue{}
	}
	if s.Env == nil {
		s.Env = map[string]string{}
	}
	if s.Firewall == nil {
		s.Firewall = map[string]host.FirewallRule{}
	}
	if s.Dynamic == nil {
		s.Dynamic = map[string]host.PortRange{}
	}
	if s.Reserved == nil {
		s.Reserved = map[string]host.PortRange{}
	}
	if s.Sysctls == nil {
		s.Sysctls = map[string]string{}
	}
	if s.Networks == nil {
		s.Networks = map[string]host.HNSNetwork{}
	}
}

// view runs f on the state as it is on disk and wraps its error.
func (h *Host) view(ctx context.Context, op, subject string, f func(*state) error) error {
	return failed(op, subject, h.locked(ctx, func(s *state, _ []byte) error { return f(s) }))
}

// change runs f under the machine's lock and keeps what it did to the state; on an
// error of f nothing of it is kept.
func (h *Host) change(ctx context.Context, f func(*state) error) error {
	return h.locked(ctx, func(s *state, old []byte) error {
		if err := f(s); err != nil {
			return err
		}
		return h.save(s, old)
	})
}

func (h *Host) locked(ctx context.Context, f func(s *state, raw []byte) error) error {
	return withLock(ctx, filepath.Join(h.cfg.Path, stateDir, "lock"), func() error {
		s := &state{}
		raw, err := readJSON(h.statePath(), s)
		if err != nil {
			return err
		}
		s.init()
		return f(s, raw)
	})
}

func (h *Host) save(s *state, old []byte) error { return writeJSON(h.statePath(), s, old) }

func (h *Host) statePath() string { return filepath.Join(h.cfg.Path, stateDir, "state.json") }

// lockWait bounds the wait for a lock; who holds one reads and writes a small file.
const lockWait = time.Minute

// withLock holds the file lock at path while f runs. The wait for it ends with ctx
// or after lockWait, and its error says what was waited for.
func withLock(ctx context.Context, path string, f func() error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	wait, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("it was not released for %s", lockWait))
	defer cancel()
	lock := flock.New(path)
	if _, err := lock.TryLockContext(wait, 2*time.Millisecond); err != nil {
		if wait.Err() != nil {
			return fmt.Errorf("waiting for the lock %s, which another process holds: %w", path, context.Cause(wait))
		}
		return fmt.Errorf("lock: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return f()
}

// readJSON fills v from a file; a missing one leaves v alone and gives nil.
func readJSON(path string, v any) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return raw, nil
}

// writeJSON replaces a file atomically, unless it holds the same bytes already.
func writeJSON(path string, v any, old []byte) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if bytes.Equal(raw, old) {
		return nil
	}
	tmp := host.TempName(path)
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
