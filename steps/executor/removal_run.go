package executor

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Remove undoes what the plan no longer names, in the order of a leave. It stops at the
// first failure; the next run continues from there.
func (x *Executor) Remove(ctx context.Context, req RemoveRequest) (RemoveReply, error) {
	defer x.forget()
	if err := x.prepareFor(ctx, req.Plan); err != nil {
		return RemoveReply{}, err
	}
	if err := x.begin(req.Request); err != nil {
		return RemoveReply{}, err
	}
	values := steps.FactValues(x.facts)
	for k, v := range req.Values {
		values[k] = v
	}
	m, err := x.newRemoval(req.Request, values)
	if err != nil {
		return RemoveReply{}, err
	}
	reply := RemoveReply{}
	if len(req.Halt) > 0 {
		err = m.halt(ctx, req.Halt, &reply)
	} else {
		err = m.run(ctx, req.Early, &reply)
	}
	reply.Err = steps.AsError(err)
	if reply.Err == nil && !req.Early && len(req.Halt) == 0 {
		reply.Err = steps.AsError(m.settle(ctx, values))
	}
	reply.Mutations = x.Mutations()
	return reply, nil
}

func (m *removal) run(ctx context.Context, early bool, reply *RemoveReply) error {
	var keys []record.Key
	for _, key := range m.x.claimed(ctx) {
		if !m.removes[key] {
			continue
		}
		isEarly, err := m.early(ctx, key)
		if err != nil {
			return err
		}
		if isEarly || !early {
			keys = append(keys, key)
		}
	}
	items := m.checkAll(ctx, keys)
	for _, item := range items {
		if item.Err != nil {
			reply.Failed = item.Key.String()
			return item.Err
		}
	}
	if err := m.mark(ctx, items); err != nil {
		return err
	}
	for _, item := range items {
		switch {
		case m.removes[item.Key]:
			item = m.check(ctx, item.Key) // again: a key of the registry may be empty by now
		case !item.Change.NoOp(): // what it holds stays after all
			continue
		}
		switch {
		case item.Err != nil:
			reply.Failed = item.Key.String()
			return item.Err
		case !item.Change.NoOp():
			if err := m.one(ctx, item, reply); err != nil {
				return err
			}
		case item.Left != "":
			reply.Left = append(reply.Left, item)
		}
	}
	return nil
}

// halt stops services that go, and notes before that they do.
func (m *removal) halt(ctx context.Context, names []string, reply *RemoveReply) error {
	for _, name := range names {
		key := record.Service.Of(name)
		if !m.removes[key] {
			continue
		}
		item := m.check(ctx, key)
		if item.Err != nil || item.Change.NoOp() {
			continue // the removal says it
		}
		if err := m.mark(ctx, []Removal{item}); err != nil {
			return err
		}
		if err := m.snapshot(ctx, key); err != nil {
			return err
		}
		undoing := func() (steps.Undoing, error) { return m.x.undos[key.Prefix].Halt(key, m.x.record.Claims[key]), nil }
		if r := m.undo.run(ctx, key, undoing); r.Err != nil {
			reply.Failed = key.String()
			return r.Err
		}
	}
	return nil
}

// mark notes what goes before anything does, so that a boot in between starts none of it.
func (m *removal) mark(ctx context.Context, items []Removal) error {
	changed := false
	for _, item := range items {
		c := m.x.record.Claims[item.Key]
		if !item.Change.NoOp() && !c.Removing {
			c.Removing, changed = true, true
			m.x.record.Claims[item.Key] = c
		}
	}
	if !changed {
		return nil
	}
	return m.x.record.Save(ctx, m.x.host, m.x.facts)
}

// one removes one thing. A program that still runs keeps its file until the next run.
func (m *removal) one(ctx context.Context, item Removal, reply *RemoveReply) error {
	if err := m.x.halted(ctx, m.req); err != nil {
		return err
	}
	if err := m.snapshot(ctx, item.Key); err != nil {
		reply.Failed = item.Key.String()
		return err
	}
	r := m.undo.run(ctx, item.Key, m.x.undoing(item.Key))
	switch {
	case r.Err != nil && r.Err.Summary == steps.StillRuns:
		item.Left = r.Err.Error() + "; the next apply removes it once the program has ended"
		reply.Left = append(reply.Left, item)
		m.stays(item.Key)
		return nil
	case r.Err != nil:
		reply.Failed = item.Key.String()
		return r.Err
	}
	m.x.record.SetUndone(item.Key)
	if err := m.x.record.Save(context.WithoutCancel(ctx), m.x.host, m.x.facts); err != nil {
		return err
	}
	reply.Removed = append(reply.Removed, item)
	if r.Left != "" {
		item.Left = r.Left
		reply.Left = append(reply.Left, item)
	}
	return nil
}

// snapshot notes a thing in an open snapshot as it is, so that a rollback restores it.
func (m *removal) snapshot(ctx context.Context, key record.Key) error {
	if !m.x.record.Snapshot.Wants(key) {
		return nil
	}
	c, undo, e := m.x.record.Claims[key], m.x.undos[key.Prefix], m.x.env(m.req.Node, key.String())
	n := record.New{Key: key, Detail: c.Detail}
	var err error
	switch {
	case undo.Store != nil:
		n.Previous, err = undo.Store(ctx, m.x.host, e, key, c)
	case undo.Now != nil:
		n.Previous, err = undo.Now(ctx, m.x.host, e, key, c)
	}
	if err != nil {
		return err
	}
	added, err := e.Snapshot(ctx, m.x.host, n)
	if err != nil || !added {
		return err
	}
	return m.x.record.Save(ctx, m.x.host, m.x.facts)
}

// inTheWay reports whether a file or folder stands where a step makes a folder or file.
func (m *removal) inTheWay(key record.Key) bool {
	if key.Prefix != record.File && key.Prefix != record.Directory {
		return false
	}
	os := m.x.facts.OS
	return slices.ContainsFunc(m.made, func(made record.Key) bool {
		file := made.Prefix == record.File
		switch {
		case !file && made.Prefix != record.Directory:
			return false
		case host.SamePath(os, made.Name, key.Name):
			return made.Prefix != key.Prefix
		case file && host.Within(os, made.Name, key.Name):
			return true // it is below what becomes a file
		}
		return key.Prefix == record.File && host.Within(os, key.Name, made.Name)
	})
}

// early reports whether a thing goes before the steps run: by its sort, or because a
// service reads it without its command saying so, and would read it again as it starts.
func (m *removal) early(ctx context.Context, key record.Key) (bool, error) {
	if early := m.x.undos[key.Prefix].Early; early != nil && early(key) {
		return m.free(ctx, key)
	}
	if m.inTheWay(key) {
		return true, nil
	}
	if key.Prefix != record.File {
		return false, nil
	}
	for name, start := range m.x.record.Starts {
		if !slices.ContainsFunc(start.Watch, func(p string) bool { return host.SamePath(m.x.facts.OS, p, key.Name) }) {
			continue
		}
		svc, err := m.x.host.Service(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		default:
			used := strings.ToLower(strings.Join(append(svc.Command, svc.Environment...), "\n"))
			return !strings.Contains(used, strings.ToLower(host.Base(m.x.facts.OS, key.Name))), nil
		}
	}
	return false, nil
}
