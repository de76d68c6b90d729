package record

import (
	"encoding/json"
	"time"
)

// Record is DataDir/record.json, written atomically.
type Record struct {
	Version      int                 `json:"version"`                // the layout, see Version
	Claims       map[Key]Claim       `json:"claims,omitempty"`       // "file:C:\k\kubelet.exe"
	Fingerprints map[string]string   `json:"fingerprints,omitempty"` // service -> fingerprint at its last start
	Starts       map[string]Start    `json:"starts,omitempty"`       // service -> its last start by nodejoin
	Archives     map[string]Unpacked `json:"archives,omitempty"`     // step id -> what was unpacked
	Digests      map[string]Stamp    `json:"digests,omitempty"`      // path key -> digest of that very file

	// Stopped are the running services that were stopped because they depend on the
	// one that names the entry, in that order; its service step starts them again.
	Stopped map[string][]string `json:"stopped,omitempty"`

	// Gates are the gates that a run has seen open, by step id.
	Gates map[string]Gate `json:"open_gates,omitempty"`

	// Ahead are the things that were claimed ahead of their steps, in the order in which a run makes them; see Withdraw.
	Ahead []Ahead `json:"claimed_ahead,omitempty"`

	// Settings is how records of nodejoin 0.1 hold what Claim.Plans says; it is only read.
	Settings map[string][]Key `json:"settings,omitempty"`

	// Secrets are the path keys of files that nodejoin wrote with a sensitive content.
	Secrets []string `json:"secrets,omitempty"`

	// Snapshot is open while a change of the machine may be rolled back; nil = none.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
}

// Version is the layout that this nodejoin writes. An older one is converted on reading.
const Version = 2

// Claim is a thing that nodejoin made or altered.
type Claim struct {
	Step string `json:"step"`
	// Seq counts the claims of a record, from 1: leave goes backwards.
	Seq int `json:"seq,omitempty"`
	// Existed: it was there before; Previous is its earlier state.
	Existed  bool            `json:"existed,omitempty"`
	Previous json.RawMessage `json:"previous,omitempty"`
	// Detail is what else is needed to undo it; its meaning is the prefix's.
	Detail string `json:"detail,omitempty"`
	// Undone: it has been undone, and no apply has claimed it since.
	Undone bool `json:"undone,omitempty"`
	// Plans are the plans with a step that makes it. A plan that no longer has one gives it
	// up; without any it is a claim of nodejoin 0.1.
	Plans []string `json:"plans,omitempty"`
	// State is the digest of the state in which nodejoin left it; "" = not known.
	State string `json:"state,omitempty"`
	// Keep: it stays on the machine when the plan no longer names it.
	Keep bool `json:"keep,omitempty"`
	// UntilLeave: it stays until the machine leaves.
	UntilLeave bool `json:"until_leave,omitempty"`
	// Removing: a run removes it because the plan no longer names it, and has not ended.
	Removing bool `json:"removing,omitempty"`
}

// Ahead is a file or folder that was claimed ahead of the step that makes it.
type Ahead struct {
	Key    Key    `json:"key"`
	SHA256 string `json:"sha256,omitempty"` // of the file; "" = a folder
}

// Start is the last start of a service by nodejoin.
type Start struct {
	PID   int      `json:"pid,omitempty"`
	Watch []string `json:"watch,omitempty"` // files whose change restarts it
	// On is the digest of the values whose change restarts it.
	On string `json:"on,omitempty"`
}

// Gate is a gate that a run has seen open.
type Gate struct {
	Args string `json:"args"` // digest of its arguments
	// PID of its service, as nodejoin had started it; 0 = not known. After another start the
	// gate has yet to open.
	PID int `json:"pid,omitempty"`
}

// Unpacked is the result of an archive step, or of a binary step whose source gives
// no sha256.
type Unpacked struct {
	// Digest of the artifact, "sha256:...", and for an archive what was taken from it
	// to where. For a join by kubeadm, the version that last wrote the kubelet's settings.
	Digest string            `json:"digest"`
	Files  map[string]string `json:"files"` // path -> sha256
	// Programs are the files of Files that are executable, sorted; nil = not known.
	Programs []string `json:"programs,omitempty"`
	// Version is the one that a run has observed running; "" = none has yet.
	Version string `json:"version,omitempty"`
}

// Stamp ties a digest to one version of a file.
type Stamp struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time"`
	ID      string    `json:"id,omitempty"`
	SHA256  string    `json:"sha256"`
}

// Snapshot is what a machine was before a change that may be rolled back. What is altered
// while it is open is noted as it was, until the run has verified everything or rolls it
// back. It is in the record, so that the run that opened it need not be the one that
// closes it.
type Snapshot struct {
	// Node is what the Node was before the first change, as the run gave it.
	Node  json.RawMessage `json:"node,omitempty"`
	Begun time.Time       `json:"begun"`
	// Items is what was altered, as it was before.
	Items map[Key]Item `json:"items,omitempty"`
	// Archives are the record's entries before they were altered; nil = there was none.
	Archives map[string]*Unpacked `json:"archives,omitempty"`
	// Leftover are digests of files that a closed snapshot needed and that still have to go.
	Leftover []string `json:"leftover,omitempty"`
	// Closed: nothing can be rolled back any more; only the files of the snapshot are left.
	Closed bool `json:"closed,omitempty"`
	// RolledBack is set once the machine is as it was before. It is noted with that, as the
	// answer may be lost, and stays until a run has observed that the machine works.
	RolledBack *Rollback `json:"rolled_back,omitempty"`
}

// Rollback is the result of a rollback.
type Rollback struct {
	Services []string `json:"services,omitempty"` // those that were started, in that order
	// Left names what could not be restored, each with why.
	Left []string `json:"left,omitempty"`
}

// Item is one altered thing as it was.
type Item struct {
	Claim // Seq counts within the snapshot
	// Claimed: nodejoin had claimed it already, and still does after a rollback.
	Claimed bool `json:"claimed,omitempty"`
	// Blob is the digest of the earlier state in nodejoin's folder, where it is not in Previous.
	Blob string `json:"blob,omitempty"`
	// Stopped: a service that ran has been stopped since.
	Stopped bool `json:"stopped,omitempty"`
}

// Worth reports whether a save of the record writes the snapshot; s may be nil.
func (s *Snapshot) Worth() bool { return s != nil && len(s.Items)+len(s.Archives)+len(s.Leftover) > 0 }
