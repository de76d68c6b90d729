package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/record"
)

// OpenSnapshot is what a check reports of the snapshot that it found on the machine.
type OpenSnapshot struct {
	Node  NodeBefore `json:"node"`
	Begun time.Time  `json:"begun"`
	// Closed: nothing can be rolled back any more.
	Closed bool `json:"closed,omitempty"`
	// RolledBack: the machine is as it was before; no run has observed yet that it works.
	RolledBack *record.Rollback `json:"rolled_back,omitempty"`
}

// openSnapshot is that of the record; nil = none.
func openSnapshot(s *record.Snapshot) (*OpenSnapshot, error) {
	if !s.Worth() {
		return nil, nil
	}
	node, err := nodeBefore(s)
	return &OpenSnapshot{Node: node, Begun: s.Begun, Closed: s.Closed, RolledBack: s.RolledBack}, err
}

func nodeBefore(s *record.Snapshot) (n NodeBefore, err error) {
	if len(s.Node) > 0 {
		if err = json.Unmarshal(s.Node, &n); err != nil {
			err = fmt.Errorf("the Node in the record's snapshot: %w", err)
		}
	}
	return n, err
}

// RollbackRequest asks for the machine to be as it was before its open snapshot.
type RollbackRequest struct {
	Node string `json:"node"`
}

// RollbackReply is the result of a rollback.
type RollbackReply struct {
	// Before is what the Node was before; nil: no snapshot was open, or nothing had been
	// changed since, and nothing was done.
	Before *NodeBefore `json:"before,omitempty"`
	record.Rollback
	Failed    string       `json:"failed,omitempty"` // key of the claim
	Err       *steps.Error `json:"err,omitempty"`    // why it ended early; the next run continues from there
	Mutations int64        `json:"mutations"`
}

// Rollback undoes everything that was changed since the snapshot began: services that
// were registered since are unregistered, files and settings are as they were, services
// that ran run. It stops at the first failure, with the snapshot open: the next rollback or apply starts
// from there. After a rollback that no run has verified yet, the answer is the same again.
func (x *Executor) Rollback(ctx context.Context, req RollbackRequest) (RollbackReply, error) {
	if err := x.prepare(ctx); err != nil {
		return RollbackReply{}, err
	}
	s := x.record.Snapshot
	rolledBack := s != nil && s.RolledBack != nil
	if !rolledBack && !s.Changed() {
		return RollbackReply{}, nil
	}
	before, err := nodeBefore(s)
	if err != nil {
		return RollbackReply{}, err
	}
	reply := RollbackReply{Before: &before}
	if rolledBack {
		reply.Rollback, reply.Mutations = *s.RolledBack, x.Mutations()
		return reply, nil
	}
	r := &rollback{x: x, undo: undoRun{x: x, node: req.Node, command: "rollback"}, snapshot: s, reply: &reply}
	phased, err := r.phased(ctx)
	if err != nil {
		return RollbackReply{}, err
	}
	r.run(ctx, phased)
	if reply.Err == nil {
		reply.Err = steps.AsError(r.settle(ctx))
	}
	reply.Mutations = x.Mutations()
	return reply, nil
}

type rollback struct {
	x        *Executor
	undo     undoRun
	snapshot *record.Snapshot
	reply    *RollbackReply
}

// phasedItem is a thing that is rolled back in phases.
type phasedItem struct {
	key record.Key
	steps.PhasedRollback
}

// phased are the things that are rolled back in phases, the last one first.
func (r *rollback) phased(ctx context.Context) (out []phasedItem, err error) {
	for _, key := range r.snapshot.Keys() {
		undo, err := r.x.undos.Of(key)
		if err != nil {
			return nil, err
		}
		if undo.Rollback == nil {
			continue
		}
		item, err := r.item(ctx, key)
		if err != nil {
			return nil, err
		}
		p, err := undo.Rollback(key, item)
		if err != nil {
			return nil, err
		}
		out = append(out, phasedItem{key, p})
	}
	return out, nil
}

func (r *rollback) run(ctx context.Context, phased []phasedItem) {
	for _, p := range phased {
		r.one(ctx, p.key, p.Before)
	}
	for _, key := range r.others() {
		r.find(ctx, key, func() (steps.Undoing, error) {
			item, err := r.item(ctx, key)
			if err != nil {
				return steps.Undoing{}, err
			}
			return r.x.undos.Undoing(key, item.Claim)
		})
	}
	for _, p := range phased {
		r.one(ctx, p.key, p.After)
	}
	for _, p := range inLastOrder(phased) {
		r.one(ctx, p.key, p.Last)
		if p.Restarted != nil && p.Restarted() {
			r.reply.Services = append(r.reply.Services, p.key.Name)
		}
	}
}

// others are what is not rolled back in phases: what programs made first, then backwards
// in the order in which it was altered. Nodejoin's own folder is not among them.
func (r *rollback) others() []record.Key {
	keys := slices.DeleteFunc(r.snapshot.Keys(), func(key record.Key) bool {
		return r.x.undos[key.Prefix].Rollback != nil || record.Own(r.x.facts, key)
	})
	slices.SortStableFunc(keys, func(a, b record.Key) int {
		return cmp.Compare(r.x.undos[a.Prefix].Order.Rank(), r.x.undos[b.Prefix].Order.Rank())
	})
	return keys
}

// inLastOrder returns each item after those that its Last comes after.
func inLastOrder(items []phasedItem) (out []phasedItem) {
	visited := map[record.Key]bool{}
	var add func(item phasedItem)
	add = func(item phasedItem) {
		if visited[item.key] {
			return
		}
		visited[item.key] = true
		for _, name := range item.LastAfter {
			i := slices.IndexFunc(items, func(p phasedItem) bool {
				return p.key.Prefix == item.key.Prefix && strings.EqualFold(p.key.Name, name)
			})
			if i >= 0 {
				add(items[i])
			}
		}
		out = append(out, item)
	}
	for _, item := range slices.Backward(items) {
		add(item)
	}
	return out
}

// one undoes one thing, or a phase of it; an empty phase is nothing.
func (r *rollback) one(ctx context.Context, key record.Key, undoing steps.Undoing) {
	if undoing.Check != nil {
		r.find(ctx, key, func() (steps.Undoing, error) { return undoing, nil })
	}
}

// find undoes what find returns; after a failure it does nothing.
func (r *rollback) find(ctx context.Context, key record.Key, find func() (steps.Undoing, error)) {
	if r.reply.Err != nil {
		return
	}
	result := r.undo.run(ctx, key, find)
	if result.Left != "" {
		r.reply.Left = append(r.reply.Left, key.String()+": "+result.Left)
	}
	if result.Err != nil {
		r.reply.Failed, r.reply.Err = key.String(), result.Err
	}
}

// item is an item of the snapshot with its earlier state in Previous.
func (r *rollback) item(ctx context.Context, key record.Key) (record.Item, error) {
	item := r.snapshot.Items[key]
	if item.Blob == "" {
		return item, nil
	}
	b, err := record.ReadState(ctx, r.x.host, r.x.facts, item.Blob)
	if err != nil {
		return item, fmt.Errorf("the earlier state of %s: %w", key, err)
	}
	item.Previous = b
	return item, nil
}

// settle restores the record, and notes in it that the machine is as it was.
func (r *rollback) settle(ctx context.Context) error {
	rec := r.x.record
	for id, u := range r.snapshot.Archives {
		if u == nil {
			delete(rec.Archives, id)
		} else {
			rec.Archives[id] = *u
		}
	}
	for key, item := range r.snapshot.Items {
		switch c, ok := rec.Lookup(key); {
		case !item.Claimed && !record.Own(r.x.facts, key):
			rec.SetUndone(key)
		case item.Claimed && ok: // it may have been removed
			c.Undone, c.Removing = false, false
			rec.Claims[key] = c
		}
	}
	done := r.reply.Rollback
	r.snapshot.Closed, r.snapshot.RolledBack = true, &done
	err := rec.Save(ctx, r.x.host, r.x.facts)
	if err != nil {
		r.snapshot.Closed, r.snapshot.RolledBack = false, nil
	}
	return err
}

// Verified closes the snapshot of the machine, if there is one: nothing can be rolled
// back any more.
func (x *Executor) Verified(ctx context.Context) error {
	if err := x.prepare(ctx); err != nil {
		return err
	}
	return x.record.Close(ctx, x.host, x.facts)
}
