package steps

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// Trial is a change of a machine that may be taken back: what is altered while it is
// open is kept as it was, until the run has verified everything or takes it back. It is
// in the record, so that the run that opened it need not be the one that ends it.
type Trial struct {
	TrialStart
	Begun time.Time `json:"begun"`
	// Kept is what was altered, by the key of its claim, as it was before.
	Kept map[string]Kept `json:"kept,omitempty"`
	// Archives are the record's entries before they were altered; nil = there was none.
	Archives map[string]*Unpacked `json:"archives,omitempty"`
	// Ended: nothing can be taken back any more; only what was kept is still to go.
	Ended bool `json:"ended,omitempty"`
	// Back is set once the machine is as it was before. It is noted with that, as the
	// answer may be lost, and stays until a run has seen the machine work (Verified).
	Back *Back `json:"back,omitempty"`
}

// Back is what taking a trial back came to.
type Back struct {
	Services []string `json:"services,omitempty"` // those that were started, in that order
	// Left names what could not be put back, each with why.
	Left []string `json:"left,omitempty"`
}

// TrialStart is what the Node was before the first change.
type TrialStart struct {
	Node    string `json:"node,omitempty"`    // UID of the Node object; "" = there was none
	Ready   bool   `json:"ready,omitempty"`   // it was Ready
	Version string `json:"version,omitempty"` // of its kubelet
	// Given is what it had of labels and taints; nil = there was none.
	Given *NodeGiven `json:"given,omitempty"`
}

// Kept is one altered thing as it was.
type Kept struct {
	Owned // Seq counts within the trial
	// Claimed: nodejoin owned it already, and goes on to.
	Claimed bool `json:"claimed,omitempty"`
	// Blob is the digest of the earlier state in previousDir, where it is not in Previous.
	Blob string `json:"blob,omitempty"`
	// Stopped: a service that ran has been stopped since.
	Stopped bool `json:"stopped,omitempty"`
}

// keptService is the earlier state of a service.
type keptService struct {
	Config      host.ServiceConfig `json:"config"`
	Running     bool               `json:"running"`
	Fingerprint string             `json:"fingerprint,omitempty"`
}

// begin opens a trial, unless one is open. It is saved with the first thing that is kept.
func (r *Record) begin(start TrialStart, now time.Time) {
	if t := r.Trial; t != nil && !t.Ended {
		return
	}
	var leftover map[string]Kept // of one whose end was interrupted: its blobs go with this one's
	if r.Trial != nil {
		leftover = r.Trial.Kept
	}
	r.Trial = &Trial{TrialStart: start, Begun: now.UTC().Truncate(time.Second), Kept: map[string]Kept{}, Archives: map[string]*Unpacked{}}
	for key, k := range leftover {
		if d := k.blob(); d != "" {
			r.Trial.Kept[droppedKey+key] = Kept{Blob: d}
		}
	}
}

// droppedKey begins the key of what only waits for its blob to go.
const droppedKey = "dropped:"

// kept tells whether an open trial holds something of the machine.
func (t *Trial) kept() bool {
	if t == nil || t.Ended {
		return false
	}
	for key := range t.Kept {
		if !strings.HasPrefix(key, droppedKey) {
			return true
		}
	}
	return len(t.Archives) > 0
}

// wants tells whether an open trial does not hold key yet.
func (t *Trial) wants(key string) bool {
	if t == nil || t.Ended {
		return false
	}
	_, ok := t.Kept[key]
	return !ok
}

// blob is the digest of the file in previousDir that holds the earlier state; "" = none.
func (k Kept) blob() string {
	if k.Blob != "" {
		return k.Blob
	}
	var prev previousFile
	if k.Existed && json.Unmarshal(k.Previous, &prev) == nil {
		return prev.SHA256
	}
	return ""
}

// add keeps one thing.
func (t *Trial) add(key string, k Kept) {
	k.Seq = len(t.Kept) + 1
	t.Kept[key] = k
}

// keep keeps what claims are about to alter. It gives what takes it out of the trial
// again where it could not be saved; nil = nothing was kept.
func (e *Env) keep(ctx context.Context, h host.Host, claims []claim) (forget func(), err error) {
	t := e.Record.Trial
	var added []string
	for _, c := range claims {
		if !t.wants(c.key) {
			continue
		}
		k := Kept{Owned: Owned{Step: e.StepID, Detail: c.detail}, Claimed: e.Record.owns(c.key)}
		prefix, rest, _ := strings.Cut(c.key, ":")
		switch prefix {
		case "service":
			if _, err := e.keepService(ctx, h, rest); err != nil {
				return nil, err
			}
			added = append(added, c.key)
			continue
		case "feature", "host_name":
			continue // what it does not need the old version does not mind; and each needs a reboot
		case "made", "hns_network", "interface", "chains", "filter_table", "routes", "netns", "source_vip", "env_file":
			// What programs make comes and goes with them. It is taken back only where it
			// was not there before the trial.
			if k.Claimed || c.prev != nil {
				continue
			}
			if prefix == "made" && !e.isNew(ctx, h, rest) {
				continue
			}
		}
		if c.prev != nil {
			b, err := json.Marshal(c.prev)
			if err != nil {
				return nil, err
			}
			k.Existed = true
			if prefix == "file" || prefix == "directory" {
				k.Previous = b
			} else if k.Blob, err = keepBytes(ctx, h, e, b); err != nil { // it may hold a secret
				return nil, err
			}
		}
		t.add(c.key, k)
		added = append(added, c.key)
	}
	if len(added) == 0 {
		return nil, nil
	}
	return func() {
		for _, key := range added {
			delete(t.Kept, key)
		}
	}, nil
}

// isNew tells whether path was not there before the trial: it is not there, or the trial
// made it.
func (e *Env) isNew(ctx context.Context, r host.Reader, path string) bool {
	for _, prefix := range []string{"directory:", "file:"} {
		if k, ok := e.Record.Trial.Kept[prefix+path]; ok && !k.Existed {
			return true
		}
	}
	_, err := r.Stat(ctx, path)
	return errors.Is(err, fs.ErrNotExist)
}

// keepService keeps a service as it is; false where it is kept already or no trial is open.
func (e *Env) keepService(ctx context.Context, h host.Host, name string) (bool, error) {
	t, key := e.Record.Trial, serviceKey(name)
	if !t.wants(key) {
		return false, nil
	}
	k := Kept{Owned: Owned{Step: e.StepID}, Claimed: e.Record.owns(key)}
	svc, err := h.Service(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	default:
		k.Existed = true
		b, err := json.Marshal(keptService{Config: svc.ServiceConfig, Running: svc.State == host.ServiceRunning || svc.State == host.ServiceStarting, Fingerprint: e.Record.Fingerprints[name]})
		if err != nil {
			return false, err
		}
		if k.Blob, err = keepBytes(ctx, h, e, b); err != nil {
			return false, err
		}
	}
	t.add(key, k)
	return true, nil
}

// stopping keeps services that are about to be stopped, and notes that they were.
func (e *Env) stopping(ctx context.Context, h host.Host, names ...string) error {
	t := e.Record.Trial
	if t == nil || t.Ended {
		return nil
	}
	save := false
	for _, n := range names {
		if _, err := e.keepService(ctx, h, n); err != nil {
			return err
		}
		if k := t.Kept[serviceKey(n)]; k.Existed && !k.Stopped {
			k.Stopped, save = true, true
			t.Kept[serviceKey(n)] = k
		}
	}
	if !save {
		return nil
	}
	return e.Record.Save(ctx, h, e.Facts)
}

// setArchive notes what an archive or binary step has unpacked.
func (e *Env) setArchive(u Unpacked) {
	if t := e.Record.Trial; t != nil && !t.Ended {
		if _, ok := t.Archives[e.StepID]; !ok {
			t.Archives[e.StepID] = nil
			if have, there := e.Record.Archives[e.StepID]; there {
				t.Archives[e.StepID] = &have
			}
		}
	}
	e.Record.Archives[e.StepID] = u
}

// keepBytes puts b into previousDir and gives its digest.
func keepBytes(ctx context.Context, h host.Host, e *Env, b []byte) (string, error) {
	if err := h.Mkdir(ctx, previousDir(e.Facts), host.AccessPrivate); err != nil {
		return "", err
	}
	s := sha256.Sum256(b)
	sum := hex.EncodeToString(s[:])
	to := host.Join(e.Facts.OS, previousDir(e.Facts), sum)
	if have, err := e.fileDigest(ctx, h, to); err != nil || have == sum {
		return sum, err
	}
	return sum, h.WriteFile(ctx, to, bytes.NewReader(b), host.WriteOptions{Access: host.AccessPrivate, SHA256: sum})
}

// state reads the earlier state of a kept thing into an Owned as undo wants it.
func (x *Executor) state(ctx context.Context, k Kept) (Owned, error) {
	if k.Blob == "" {
		return k.Owned, nil
	}
	rc, err := x.host.Open(ctx, host.Join(x.facts.OS, previousDir(x.facts), k.Blob))
	if err != nil {
		return k.Owned, fmt.Errorf("what was kept of it: %w", err)
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, 16<<20))
	if s := sha256.Sum256(b); err == nil && hex.EncodeToString(s[:]) != k.Blob {
		err = errors.New("what was kept of it is damaged")
	}
	k.Previous = b
	return k.Owned, err
}

// Verified ends the trial of the machine, if there is one: what it kept goes, and nothing
// can be taken back any more.
func (x *Executor) Verified(ctx context.Context) error {
	if err := x.prepare(ctx); err != nil {
		return err
	}
	if x.record.Trial == nil {
		return nil
	}
	x.record.Trial.Ended = true
	return x.endTrial(ctx)
}

// endTrial saves the end of the trial, then removes what only it kept.
func (x *Executor) endTrial(ctx context.Context) error {
	if !x.record.Trial.saved() {
		x.record.Trial = nil
		return nil
	}
	if err := x.record.Save(ctx, x.host, x.facts); err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, o := range x.record.Owned {
		needed[Kept{Owned: o}.blob()] = true
	}
	for _, key := range slices.Sorted(maps.Keys(x.record.Trial.Kept)) {
		d := x.record.Trial.Kept[key].blob()
		if d == "" || needed[d] {
			continue
		}
		needed[d] = true // once
		if err := x.host.Remove(ctx, host.Join(x.facts.OS, previousDir(x.facts), d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	x.record.Trial = nil
	return x.record.Save(ctx, x.host, x.facts)
}

// saved tells whether a save of the record writes the trial.
func (t *Trial) saved() bool { return t != nil && (len(t.Kept) > 0 || len(t.Archives) > 0) }
