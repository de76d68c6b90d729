package executor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// LeaveRequest names the node that leaves; the record has what to undo.
type LeaveRequest struct {
	Node string `json:"node"`
	Plan string `json:"plan,omitempty"` // its name
	// OverSSH: the machine is reached over SSH.
	OverSSH bool `json:"over_ssh,omitempty"`
}

// ForgetReply names what stays in nodejoin's folder because nodejoin did not put it there.
type ForgetReply struct {
	Left []string `json:"left,omitempty"`
}

// LeaveReply is the result of a leave, or of a check of what a leave would undo.
type LeaveReply struct {
	Facts     host.Facts   `json:"facts"`
	Items     []LeaveItem  `json:"items"`            // in the order in which they are undone
	Folder    bool         `json:"folder,omitempty"` // nodejoin's own folder is there
	Others    []Other      `json:"others,omitempty"` // of the cluster's CNI, which stays
	Failed    string       `json:"failed,omitempty"`
	Err       *steps.Error `json:"err,omitempty"` // why the leave ended early; the next one continues from there
	Mutations int64        `json:"mutations"`
}

// LeaveItem is one thing that nodejoin made or altered on a machine.
type LeaveItem struct {
	Key    record.Key   `json:"key"` // "service:kubelet"
	Change steps.Change `json:"change"`
	// Left says why it stays, or what of it; "" = nothing stays.
	Left string       `json:"left,omitempty"`
	Done bool         `json:"done,omitempty"` // undone, by this leave or an earlier one
	Err  *steps.Error `json:"err,omitempty"`
}

// claimed is the keys of the record in the order in which they are undone: services
// first, then what their programs made in the kernel, then backwards in the order of
// the claims. Nodejoin's own folder and those above it are not among them.
func (x *Executor) claimed(ctx context.Context) []record.Key {
	var keys []record.Key
	for key := range x.record.Claims {
		if !record.Own(x.facts, key) {
			keys = append(keys, key)
		}
	}
	rank := func(key record.Key) int { return x.undos[key.Prefix].Order.Rank() }
	slices.SortFunc(keys, func(a, b record.Key) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(x.record.Claims[b].Seq, x.record.Claims[a].Seq),
			strings.Compare(b.String(), a.String()))
	})
	return x.dependentsFirst(ctx, keys)
}

// dependentsFirst moves a service behind those that depend on it, running or not. The order of the claims
// does not say it for one that was removed and made again since.
func (x *Executor) dependentsFirst(ctx context.Context, keys []record.Key) (out []record.Key) {
	visited := map[record.Key]bool{}
	var add func(key record.Key)
	add = func(key record.Key) {
		if visited[key] {
			return
		}
		visited[key] = true
		if key.Prefix == record.Service {
			dependents, _ := x.dependents(ctx, key.Name) // of one that cannot be asked, its undoing says so
			for _, name := range dependents {
				for _, other := range keys {
					if other.Prefix == record.Service && x.same(other, record.Service.Of(name)) {
						add(other)
					}
				}
			}
		}
		out = append(out, key)
	}
	for _, key := range keys {
		add(key)
	}
	return out
}

// leaving is the undo run of a leave.
func (x *Executor) leaving(req LeaveRequest) *undoRun {
	x.overSSH = req.OverSSH
	return &undoRun{x: x, node: req.Node, command: "leave", undone: func(ctx context.Context, key record.Key) error {
		if c, _ := x.record.Lookup(key); c.Undone {
			return nil
		}
		x.record.SetUndone(key)
		return x.record.Save(ctx, x.host, x.facts)
	}}
}

// item is the result of one claim.
func (x *Executor) item(key record.Key, r undoResult) LeaveItem {
	c, _ := x.record.Lookup(key)
	return LeaveItem{Key: key, Change: r.Change, Left: r.Left, Done: c.Undone, Err: r.Err}
}

// undoing finds the undoing of a claim.
func (x *Executor) undoing(key record.Key) func() (steps.Undoing, error) {
	return func() (steps.Undoing, error) { return x.undos.Undoing(key, x.record.Claims[key]) }
}

// checkItem finds what to do about one claim.
func (x *Executor) checkItem(ctx context.Context, u *undoRun, key record.Key) LeaveItem {
	r, _ := u.check(ctx, x.env(u.node, key.String()), key, x.undoing(key))
	return x.item(key, r)
}

// CheckLeave reports what a leave would do. It changes nothing.
func (x *Executor) CheckLeave(ctx context.Context, req LeaveRequest) (LeaveReply, error) {
	if err := x.prepareFor(ctx, req.Plan); err != nil {
		return LeaveReply{}, err
	}
	reply := LeaveReply{Facts: x.facts, Items: []LeaveItem{}}
	u := x.leaving(req)
	for _, key := range x.claimed(ctx) {
		reply.Items = append(reply.Items, x.checkItem(ctx, u, key))
	}
	reply.Mutations = x.Mutations()
	var err error
	if reply.Others, err = x.others(ctx); err != nil {
		return reply, err
	}
	reply.Folder, err = host.Exists(ctx, x.host, x.facts.DataDir)
	return reply, err
}

// Leave undoes everything that nodejoin made or altered on the machine, except its own folder, and checks
// each thing again at the end. It stops at the first failure; the next leave continues from there.
func (x *Executor) Leave(ctx context.Context, req LeaveRequest) (LeaveReply, error) {
	if err := x.prepareFor(ctx, req.Plan); err != nil {
		return LeaveReply{}, err
	}
	reply := LeaveReply{Facts: x.facts, Items: []LeaveItem{}}
	x.record.Snapshot = nil // everything goes back further than that
	keys := x.claimed(ctx)
	u := x.leaving(req)
	for _, key := range keys {
		item := x.item(key, u.run(ctx, key, x.undoing(key)))
		if item.Err != nil {
			reply.Failed, reply.Err = key.String(), item.Err
			break
		}
		reply.Items = append(reply.Items, item)
	}
	if reply.Err == nil {
		reply.Items, reply.Failed, reply.Err = x.verifyLeft(ctx, u, keys)
	}
	if reply.Err == nil {
		if reply.Err = x.removeLeftover(ctx); reply.Err != nil {
			reply.Failed = "service:" + host.FeatureService
		}
	}
	reply.Mutations = x.Mutations()
	return reply, nil
}

// verifyLeft checks everything once more.
func (x *Executor) verifyLeft(ctx context.Context, u *undoRun, keys []record.Key) (items []LeaveItem, failed string,
	err *steps.Error) {
	for _, key := range keys {
		item := x.checkItem(ctx, u, key)
		items = append(items, item)
		switch {
		case err != nil:
		case item.Err != nil:
			failed, err = key.String(), item.Err
		case !item.Change.NoOp():
			failed, err = key.String(), steps.AsError(notConverged(steps.Spec{ID: key.String()}, item.Change))
		}
	}
	return items, failed, err
}

// dataEntries are what nodejoin keeps in its folder; the record is removed last. services and .host.lock
// are of Linux machines (steps/host/linux), whose services have gone by then.
var dataEntries = []string{"bin", "blobs", "check", "import", "previous", "resume", "services", ".host.lock",
	"apply.lock", "apply.holder.json", "history.json", guardFile, pauseFile, "record.json"}

// Forget removes nodejoin's own folder with all that nodejoin keeps in it, and the
// folders above that it made, if they are empty. It refuses while something is left to undo. Anything else
// in the folder stays, and is named.
func (x *Executor) Forget(ctx context.Context, req LeaveRequest) (reply ForgetReply, err error) {
	if err := x.prepare(ctx); err != nil {
		return reply, err
	}
	u := x.leaving(req)
	for _, key := range x.claimed(ctx) {
		if item := x.checkItem(ctx, u, key); item.Err != nil || !item.Change.NoOp() {
			return reply, &steps.Error{Code: steps.CodeFailed, Summary: "something is still to be undone",
				Detail: key.String(), Remedy: "leave again"}
		}
	}
	dir := x.facts.DataDir
	for _, name := range dataEntries {
		path := host.Join(x.facts.OS, dir, name)
		for _, p := range []string{path, host.TempName(path)} {
			if err := steps.RemoveTree(ctx, x.host, x.facts.OS, p); err != nil {
				return reply, err
			}
		}
	}
	rec := x.record
	x.record = nil // the next call finds none
	for {
		parent := host.Dir(x.facts.OS, dir)
		list, err := x.host.List(ctx, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return reply, err
		case len(list) > 0:
			if dir == x.facts.DataDir {
				for _, fi := range list {
					reply.Left = append(reply.Left, host.Join(x.facts.OS, dir, fi.Name))
				}
			}
			return reply, nil
		default:
			if err := x.host.Remove(ctx, dir); err != nil {
				return reply, err
			}
		}
		if c, ours := rec.Lookup(record.Directory.Of(parent)); !ours || c.Existed || parent == dir {
			return reply, nil
		}
		dir = parent
	}
}
