package kinds

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

var cniConfFirstKind = steps.Kind{Name: "cni_conf_first", Place: steps.OnHost, Image: true,
	Doc:    "CNI configurations that sort before this one are removed, so that it is read; leave restores them",
	New:    func() any { return &CNIConfFirst{} },
	Claims: steps.Claims((*CNIConfFirst).claims)}

// CNIConfFirst removes the configurations that hide the one at Path. The runtime
// takes the first of a folder by name, so that one which an earlier installation
// left, such as 0-containerd-nat.json of the usual install scripts, gives all pods
// another network, and no error says so. Each is removed as a file step does it.
type CNIConfFirst struct {
	Path string `json:"path" doc:"the configuration that is to be read; it need not be there yet" id:"true" path:"true"`
}

func (f *CNIConfFirst) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	before, err := f.Before(ctx, r, e.Facts.OS)
	if err != nil || len(before) == 0 {
		return steps.Change{}, err
	}
	c := steps.Change{Action: steps.ActionDelete, Reason: "read before " + host.Base(e.Facts.OS, f.Path),
		Digests: map[string]string{}}
	for _, path := range before {
		c.Touches = append(c.Touches, steps.Touch{Path: path})
		c.Digests[path] = steps.AbsentFile
		c.Diffs = append(c.Diffs, steps.Diff{Name: host.Base(e.Facts.OS, path), Have: "there"})
	}
	return c, nil
}

func (f *CNIConfFirst) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	before, err := f.Before(ctx, h, e.Facts.OS)
	if err != nil {
		return steps.Outcome{}, err
	}
	for _, path := range before {
		gone := &File{Path: path, Absent: true}
		if _, err := gone.Apply(ctx, h, e, steps.Change{Action: steps.ActionDelete}); err != nil {
			return steps.Outcome{}, err
		}
	}
	return steps.Outcome{}, nil
}

// Before lists what is read before Path: files with an extension that libcni knows,
// sorted by name, case counting (containernetworking/cni libcni/api.go, ConfFiles;
// containerd/go-cni opts.go, loadFromConfDir).
func (f *CNIConfFirst) Before(ctx context.Context, r host.FilesReader, os string) ([]string, error) {
	dir, own := host.Dir(os, f.Path), host.Base(os, f.Path)
	entries, err := r.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, fi := range entries {
		if fi.Dir || !readBefore(fi.Name, own) {
			continue
		}
		out = append(out, host.Join(os, dir, fi.Name))
	}
	return out, nil
}

// readBefore reports whether libcni reads the file name before own.
func readBefore(name, own string) bool {
	dot := strings.LastIndexByte(name, '.')
	return name < own && dot >= 0 && slices.Contains([]string{".conf", ".conflist", ".json"}, name[dot:])
}

// claims are the files that were there and that it has removed.
func (f *CNIConfFirst) claims(e *steps.Env) (out []record.Key) {
	os := e.Facts.OS
	for key, c := range e.Record.Claims {
		inFolder := key.Prefix == record.File && c.Existed && host.SamePath(os, host.Dir(os, key.Name), host.Dir(os, f.Path))
		if inFolder && readBefore(host.Base(os, key.Name), host.Base(os, f.Path)) {
			out = append(out, key)
		}
	}
	return out
}
