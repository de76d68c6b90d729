package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/event"
	"nodejoin/steps/host"
)

// LeaveRequest names the node that leaves; the record says what is to be put back.
type LeaveRequest struct {
	Node string `json:"node"`
}

// ForgetReply names what stays in nodejoin's folder, because nodejoin did not put it there.
type ForgetReply struct {
	Left []string `json:"left,omitempty"`
}

// LeaveReply is what a look at what nodejoin owns on a machine found, or what a leave
// came to.
type LeaveReply struct {
	Facts     host.Facts  `json:"facts"`
	Items     []LeaveItem `json:"items"`            // in the order in which they are put back
	Folder    bool        `json:"folder,omitempty"` // nodejoin's own folder is there
	Failed    string      `json:"failed,omitempty"`
	Err       *Error      `json:"err,omitempty"` // what ended the leave; the next one goes on from there
	Mutations int64       `json:"mutations"`
}

// LeaveItem is one thing that nodejoin made or altered on a machine.
type LeaveItem struct {
	Key    string `json:"key"` // "service:kubelet"
	Change Change `json:"change"`
	// Left says why it stays, or what of it; "" = nothing stays.
	Left string `json:"left,omitempty"`
	Done bool   `json:"done,omitempty"` // put back, by this leave or an earlier one
	Err  *Error `json:"err,omitempty"`
}

// undoTimeout bounds the putting back of one thing. A service may take minutes to stop;
// a runtime's folder may hold 100000 files.
const undoTimeout = 10 * time.Minute

// claimed is the keys of the record in the order in which they are put back: services
// first, then what their programs made in the kernel, then backwards in the order of
// the claims. Nodejoin's own folder and those above it are not among them.
func (x *Executor) claimed() []string {
	rank := func(key string) int {
		switch {
		case strings.HasPrefix(key, "service:"):
			return 0
		case ofPrograms(key):
			return 1
		}
		return 2
	}
	var keys []string
	for key := range x.record.Owned {
		if dir, ok := strings.CutPrefix(key, "directory:"); ok && within(x.facts.OS, dir, x.facts.DataDir) {
			continue
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(x.record.Owned[b].Seq, x.record.Owned[a].Seq), cmp.Compare(b, a))
	})
	return keys
}

// look asks what is to be done about one claim.
func (x *Executor) look(ctx context.Context, e *Env, key string) (item LeaveItem, u undo) {
	o := x.record.Owned[key]
	item = LeaveItem{Key: key, Done: o.Undone}
	u, err := undoOf(key, o)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		err = func() (err error) {
			defer recoverInto(&err)
			item.Change, item.Left, err = u.look(ctx, x.host, e)
			return err
		}()
	}
	item.Err = AsError(err)
	return item, u
}

// CheckLeave says what a leave would do; nothing is changed.
func (x *Executor) CheckLeave(ctx context.Context, req LeaveRequest) (LeaveReply, error) {
	if err := x.prepare(ctx); err != nil {
		return LeaveReply{}, err
	}
	reply := LeaveReply{Facts: x.facts, Items: []LeaveItem{}}
	for _, key := range x.claimed() {
		e := x.env(req.Node, "leave")
		item, _ := x.look(ctx, e, key)
		reply.Items = append(reply.Items, item)
	}
	reply.Mutations = x.Mutations()
	var err error
	reply.Folder, err = host.Exists(ctx, x.host, x.facts.DataDir)
	return reply, err
}

// Leave puts everything back that nodejoin made or altered on the machine, but for
// its own folder, and asks of each thing again in the end. It stops at the first
// failure; the next leave goes on from there.
func (x *Executor) Leave(ctx context.Context, req LeaveRequest) (LeaveReply, error) {
	if err := x.prepare(ctx); err != nil {
		return LeaveReply{}, err
	}
	reply := LeaveReply{Facts: x.facts, Items: []LeaveItem{}}
	x.record.Trial = nil // everything goes back further than that
	keys := x.claimed()
	for _, key := range keys {
		item, err := x.putBack(ctx, req.Node, key)
		if err != nil {
			reply.Failed, reply.Err = key, err
			break
		}
		reply.Items = append(reply.Items, item)
	}
	if reply.Err == nil {
		reply.Items, reply.Failed, reply.Err = x.prove(ctx, req.Node, keys)
	}
	reply.Mutations = x.Mutations()
	return reply, nil
}

func (x *Executor) putBack(ctx context.Context, node, key string) (LeaveItem, *Error) {
	start := time.Now()
	e := x.env(node, key)
	item, u := x.look(ctx, e, key)
	started := item.Err == nil && !item.Change.NoOp()
	if started {
		x.emit(event.StepStarted{Host: node, Step: key, Kind: "leave", Action: string(item.Change.Action), Reason: item.Change.Reason})
		ctx, cancel := context.WithTimeoutCause(ctx, undoTimeout, &Error{Code: CodeTimeout, Summary: "not done in time", Detail: fmt.Sprintf("%s took longer than %s", key, undoTimeout)})
		defer cancel()
		err := func() (err error) {
			defer recoverInto(&err)
			return u.do(ctx, x.host, e)
		}()
		if err != nil && ctx.Err() != nil {
			err = causeOr(ctx, err)
		}
		action := item.Change.Action
		if item.Err = AsError(err); err == nil {
			item, _ = x.look(ctx, e, key)
			if item.Err == nil && !item.Change.NoOp() {
				item.Err = AsError(notConverged(Spec{ID: key}, item.Change))
			}
		}
		item.Change.Action = action
	}
	if item.Err == nil && item.Left == "" && !item.Done {
		o := x.record.Owned[key]
		o.Undone, item.Done = true, true
		x.record.Owned[key] = o
		if err := x.record.Save(context.WithoutCancel(ctx), x.host, x.facts); err != nil {
			item.Err = AsError(err)
		}
	}
	if started || item.Err != nil {
		d := event.StepDone{Host: node, Step: key, Result: "changed", Action: string(item.Change.Action), Duration: time.Since(start)}
		if item.Err != nil {
			d.Result, d.Summary, d.Detail, d.Remedy = "failed", item.Err.Summary, item.Err.Detail, item.Err.Remedy
		}
		x.emit(d)
	}
	return item, item.Err
}

// prove asks of everything once more, through nothing that can change it.
func (x *Executor) prove(ctx context.Context, node string, keys []string) (items []LeaveItem, failed string, err *Error) {
	for _, key := range keys {
		item, _ := x.look(ctx, x.env(node, key), key)
		items = append(items, item)
		switch {
		case err != nil:
		case item.Err != nil:
			failed, err = key, item.Err
		case !item.Change.NoOp():
			failed, err = key, AsError(notConverged(Spec{ID: key}, item.Change))
		}
	}
	return items, failed, err
}

// goes tells whether a leave removes path: nodejoin made it, or a program of ours. A
// folder of nodejoin's stays where others have put something into it.
func (e *Env) goes(path string) bool {
	if e.goesWhole(path) {
		return true
	}
	return e.claims(func(prefix, rest string) bool {
		return slices.Contains([]string{"file", "directory", "env_file"}, prefix) && host.SamePath(e.Facts.OS, rest, path)
	})
}

// goesWhole tells whether a leave removes path with all that is in it.
func (e *Env) goesWhole(path string) bool {
	if within(e.Facts.OS, path, e.Facts.DataDir) {
		return true
	}
	return e.claims(func(prefix, rest string) bool {
		return prefix == "made" && within(e.Facts.OS, rest, path) || prefix == "netns" && strings.HasPrefix(path, netnsDir+"/"+rest)
	})
}

// claims tells whether there is such a claim of what nodejoin or a program of ours made.
func (e *Env) claims(is func(prefix, rest string) bool) bool {
	for key, o := range e.Record.Owned {
		if prefix, rest, _ := strings.Cut(key, ":"); !o.Existed && !o.Undone && is(prefix, rest) {
			return true
		}
	}
	return false
}

// owned tells whether nodejoin made what key names, whether or not it is put back.
func (r *Record) owned(key string) bool {
	o, ok := r.Owned[key]
	return ok && !o.Existed
}

// dataEntries are what nodejoin keeps in its folder; the record goes last of them.
// services and .host.lock are of Linux machines (steps/host/linux), whose services have
// gone by then.
var dataEntries = []string{"bin", "blobs", "previous", "resume", "services", ".host.lock", "apply.lock", "apply.holder.json", "history.json", "record.json"}

// Forget removes nodejoin's own folder with all that nodejoin keeps in it, and the
// folders above that it made, if they are empty. It refuses while something is still
// to be put back. What else lies in the folder stays, and is named.
func (x *Executor) Forget(ctx context.Context, req LeaveRequest) (reply ForgetReply, err error) {
	if err := x.prepare(ctx); err != nil {
		return reply, err
	}
	for _, key := range x.claimed() {
		if item, _ := x.look(ctx, x.env(req.Node, key), key); item.Err != nil || !item.Change.NoOp() {
			return reply, &Error{Code: CodeFailed, Summary: "something is still to be put back", Detail: key, Remedy: "leave again"}
		}
	}
	dir := x.facts.DataDir
	for _, name := range dataEntries {
		path := host.Join(x.facts.OS, dir, name)
		for _, p := range []string{path, host.TempName(path)} {
			if err := removeTree(ctx, x.host, x.facts.OS, p); err != nil {
				return reply, err
			}
		}
	}
	above := x.record.Owned
	x.record = nil // the next call finds none
	for ; ; dir = host.Dir(x.facts.OS, dir) {
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
		if o, ours := above["directory:"+host.Dir(x.facts.OS, dir)]; !ours || o.Existed {
			return reply, nil
		}
	}
}
