package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/steps"
)

// Item is an artifact that a mirror has.
type Item struct {
	Name, Platform string
	File           string // its name in the folder
	Size           int64
	SHA256         string
	From           steps.Source
}

// State of a file in a folder.
type State int

// The states.
const (
	Missing State = iota
	Wrong         // it has other bytes
	There
)

// Items are the artifacts of a plan that a mirror can have, by the names of their files, and the names of those that
// it cannot, as the plan says where they come from.
func Items(p *plan.Compiled) (items []Item, others []string) {
	for _, a := range p.Artifacts {
		e := p.Lock.Lookup(a.Name, a.Platform())
		if a.MirrorFile == "" || e == nil {
			others = append(others, a.Name+" for "+a.Platform())
			continue
		}
		items = append(items, Item{a.Name, a.Platform(), a.MirrorFile, e.Size, e.SHA256, Source(a, e)})
	}
	slices.SortFunc(items, func(a, b Item) int {
		if a.File < b.File {
			return -1
		}
		return 1
	})
	return items, others
}

// Source is where an artifact is read from: its publisher where the lock names that, else what the plan says.
func Source(a plan.Artifact, e *lock.Entry) steps.Source {
	if a.Upstream != "" && e.Address == a.Upstream {
		return steps.Source{URL: a.Upstream}
	}
	return a.From
}

// Target is a mirror that is filled.
type Target interface {
	// Check compares what it has of an artifact with the lock.
	Check(context.Context, Item) (State, error)
	// Fill writes what is missing or wrong. All that goes wrong is returned, each with its artifact.
	Fill(context.Context, []Item) error
}

// each does something for items, some at once, and returns all that goes wrong, each with its item.
func each(parallel int, items []Item, do func(Item) error) error {
	errs := make([]error, len(items))
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, it := range items {
		g.Go(func() error {
			if err := do(it); err != nil {
				errs[i] = &Error{it, err}
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return none
	return errors.Join(errs...)
}

// Error is why an artifact is not in the mirror.
type Error struct {
	Item Item
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s for %s: %v", e.Item.Name, e.Item.Platform, e.Err)
}
func (e *Error) Unwrap() error { return e.Err }

// WrongBytesError is an artifact that is not what is locked.
type WrongBytesError struct {
	From         string
	Size         int64
	Digest, Want string
}

func (e *WrongBytesError) Error() string {
	return fmt.Sprintf("%s has the sha256 %s (%d bytes), and locked is %s", e.From, e.Digest, e.Size, e.Want)
}

// Report says what happens. Neither function is nil, and neither is called by two at once.
type Report struct {
	Fetched  func(Item)    // for each artifact that was read
	Progress func(n int64) // with bytes as they arrive

	mu sync.Mutex
}

func (r *Report) fetched(it Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Fetched(it)
}

// meter reports the bytes that are read.
func (r *Report) meter(from io.Reader) io.Reader { return &metered{from, r} }

type metered struct {
	io.Reader
	to *Report
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.to.mu.Lock()
	defer m.to.mu.Unlock()
	m.to.Progress(int64(n))
	return n, err
}
