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

// Record is nodejoin's small memory on a host: what it made there, what it must
// put back on leave, and from what the services were last started. Observation
// always wins over it. It is DataDir/record.json, written atomically.
type Record struct {
	Version      int                 `json:"version"`                // recordVersion
	Owned        map[string]Owned    `json:"owned,omitempty"`        // by key, "file:C:\k\kubelet.exe"
	Fingerprints map[string]string   `json:"fingerprints,omitempty"` // service -> Fingerprint at its last start
	Starts       map[string]Start    `json:"starts,omitempty"`       // service -> its last start by nodejoin
	Archives     map[string]Unpacked `json:"archives,omitempty"`     // step id -> what was unpacked
	Digests      map[string]Stamp    `json:"digests,omitempty"`      // path key -> digest of that very file

	// Stopped are the running services that were stopped because they depend on the
	// one that names the entry, in that order; its service step starts them again.
	Stopped map[string][]string `json:"stopped,omitempty"`

	// Settings are the keys of what the settings of plans have made, by the name of the
	// plan's cluster, whether or not they make it still.
	Settings map[string][]string `json:"settings,omitempty"`

	// Trial is open while a change of the machine may be taken back; nil = none.
	Trial *Trial `json:"trial,omitempty"`

	loaded bool
}

const recordVersion = 1

// Owned is a thing that nodejoin made or altered.
type Owned struct {
	Step string `json:"step"`
	// Seq counts the claims of a record, from 1: leave goes backwards.
	Seq int `json:"seq,omitempty"`
	// Existed tells that it was there before; Previous is its earlier state, for leave.
	Existed  bool            `json:"existed,omitempty"`
	Previous json.RawMessage `json:"previous,omitempty"`
	// Detail is what else leave must know of it; its meaning is the prefix's (undo.go).
	Detail string `json:"detail,omitempty"`
	// Undone: a leave has put it back already, and an apply has not claimed it since.
	Undone bool `json:"undone,omitempty"`
}

// Unpacked is the result of an archive step, or of a binary step whose source gives
// no sha256.
type Unpacked struct {
	// Digest of the artifact, "sha256:...", and for an archive what was taken from it
	// to where.
	Digest string            `json:"digest"`
	Files  map[string]string `json:"files"` // path -> sha256
	// Version that a run has seen run from it; "" = none has yet.
	Version string `json:"version,omitempty"`
}

// Stamp ties a digest to one version of a file.
type Stamp struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time"`
	ID      string    `json:"id,omitempty"`
	SHA256  string    `json:"sha256"`
}

// RecordPath is where the record of a host lies.
func RecordPath(f host.Facts) string { return host.Join(f.OS, f.DataDir, "record.json") }

// LoadRecord reads the record; a host without one gives an empty record. A record
// that cannot be parsed is set aside by the next save and counts as empty.
func LoadRecord(ctx context.Context, r host.Reader, f host.Facts) (*Record, error) {
	rec := &Record{}
	rc, err := r.Open(ctx, RecordPath(f))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		defer rc.Close()
		b, err := io.ReadAll(io.LimitReader(rc, 64<<20))
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(b, rec) != nil {
			rec = &Record{}
		} else if rec.Version > recordVersion {
			return nil, fmt.Errorf("%s was written by a newer nodejoin (record version %d, this one knows %d)", RecordPath(f), rec.Version, recordVersion)
		}
	}
	rec.Version = recordVersion
	for _, m := range []*map[string]string{&rec.Fingerprints} {
		if *m == nil {
			*m = map[string]string{}
		}
	}
	if rec.Owned == nil {
		rec.Owned = map[string]Owned{}
	}
	if rec.Starts == nil {
		rec.Starts = map[string]Start{}
	}
	if rec.Archives == nil {
		rec.Archives = map[string]Unpacked{}
	}
	if rec.Digests == nil {
		rec.Digests = map[string]Stamp{}
	}
	if rec.Stopped == nil {
		rec.Stopped = map[string][]string{}
	}
	if t := rec.Trial; t != nil {
		if t.Kept == nil {
			t.Kept = map[string]Kept{}
		}
		if t.Archives == nil {
			t.Archives = map[string]*Unpacked{}
		}
	}
	rec.loaded = true
	return rec, nil
}

// Save writes the record.
func (r *Record) Save(ctx context.Context, h host.Host, f host.Facts) error {
	out := *r
	if !r.Trial.saved() {
		out.Trial = nil
	}
	b, err := json.MarshalIndent(&out, "", " ")
	if err != nil {
		return err
	}
	return h.WriteFile(ctx, RecordPath(f), bytes.NewReader(b), host.WriteOptions{Access: host.AccessPrivate})
}

// Claim notes, before the change itself, that key is about to be made or altered
// by nodejoin. Only the first claim keeps the earlier state. prev is nil when the
// thing was not there. The prefix of key, up to the colon, must be one that leave
// knows how to put back (undo.go).
func (r *Record) Claim(ctx context.Context, h host.Host, f host.Facts, key, step string, prev any) error {
	return r.claim(ctx, h, f, step, false, claim{key: key, prev: prev})
}

// claim is one claim; several are saved at once.
type claim struct {
	key    string
	prev   any
	detail string
}

// claim saves the record where it changes, and in any case with save.
func (r *Record) claim(ctx context.Context, h host.Host, f host.Facts, step string, save bool, claims ...claim) error {
	if len(r.Owned) == 0 {
		// The save below makes nodejoin's folder, with the folders above it.
		missing, err := missingParents(ctx, h, f.OS, RecordPath(f))
		if err != nil {
			return err
		}
		for _, dir := range missing {
			claims = append(claims, claim{key: "directory:" + dir})
		}
	}
	before := maps.Clone(r.Owned)
	next := 1
	for _, o := range r.Owned {
		next = max(next, o.Seq+1)
	}
	changed := save
	for _, c := range claims {
		if prefix, _, _ := strings.Cut(c.key, ":"); undoes[prefix] == nil {
			return fmt.Errorf("internal error: leave does not know how to put back %q", c.key)
		}
		if o, ok := r.Owned[c.key]; ok && !o.Undone {
			continue
		}
		o := Owned{Step: step, Seq: next, Detail: c.detail}
		if c.prev != nil {
			b, err := json.Marshal(c.prev)
			if err != nil {
				return err
			}
			o.Existed, o.Previous = true, b
		}
		r.Owned[c.key], changed = o, true
		next++
	}
	if !changed {
		return nil
	}
	if err := r.Save(ctx, h, f); err != nil {
		r.Owned = before
		return err
	}
	return nil
}

// made tells whether nodejoin made what key names, and has not put it back.
func (r *Record) made(key string) bool { return r.owns(key) && !r.Owned[key].Existed }

// empty tells whether the record holds nothing that a leave would put back, nodejoin's own
// folder aside.
func (r *Record) empty(f host.Facts) bool {
	for key, o := range r.Owned {
		dir, isDir := strings.CutPrefix(key, "directory:")
		if !o.Undone && !(isDir && within(f.OS, dir, f.DataDir)) {
			return false
		}
	}
	return true
}

// owns tells whether the record holds a claim that leave has not put back.
func (r *Record) owns(key string) bool {
	o, ok := r.Owned[key]
	return ok && !o.Undone
}

// Claim is Record.Claim for this step.
func (e *Env) Claim(ctx context.Context, h host.Host, key string, prev any) error {
	return e.claim(ctx, h, claim{key: key, prev: prev})
}

// smallFile: up to this size a file is always hashed anew (bytes).
const smallFile = 1 << 20

// Digest is the sha256 of a file in lower-case hex. A large file that is, by size,
// time and ID, the very one that was hashed before is not read again.
func (e *Env) Digest(ctx context.Context, r host.Reader, path string) (string, error) {
	fi, err := r.Stat(ctx, path)
	if err != nil {
		return "", err
	}
	if fi.Dir {
		return "", fmt.Errorf("%s is a directory", path)
	}
	key := host.PathKey(e.Facts.OS, path)
	if s, ok := e.Record.Digests[key]; ok && fi.Size > smallFile && s.Size == fi.Size && s.ModTime.Equal(fi.ModTime) && s.ID == fi.ID {
		return s.SHA256, nil
	}
	rc, err := r.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{rc}, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if fi.Size > smallFile {
		e.Record.Digests[key] = Stamp{Size: fi.Size, ModTime: fi.ModTime, ID: fi.ID, SHA256: sum}
	}
	return sum, nil
}

// absentFile stands for the digest of a file that is not there.
const absentFile = "absent"

// Fingerprint is a digest over what a service is started from: its registered
// command, environment and the content of the watched files, as it is or, in a
// plan, as earlier steps will leave it. A watched file that is missing is part of it.
func (e *Env) Fingerprint(ctx context.Context, r host.Reader, c host.ServiceConfig, watch []string) (string, error) {
	h := sha256.New()
	for _, s := range c.Command {
		fmt.Fprintf(h, "arg %q\n", s)
	}
	for _, s := range c.Environment {
		fmt.Fprintf(h, "env %q\n", s)
	}
	for _, p := range slices.Sorted(slices.Values(watch)) {
		d, known := e.futureDigest(p)
		if !known {
			var err error
			if d, err = e.Digest(ctx, r, p); errors.Is(err, fs.ErrNotExist) {
				d = absentFile
			} else if err != nil {
				return "", err
			}
		}
		fmt.Fprintf(h, "file %q %s\n", p, d)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
