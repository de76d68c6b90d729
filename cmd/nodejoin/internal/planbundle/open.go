package planbundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/agentbin"
)

// Opened is a bundle whose files are on this machine.
type Opened struct {
	Config
	Sum   string // sha256 of its index, which stands for all of it
	path  string
	dir   string
	only  bool              // it is only checked: of large files there are empty ones
	files map[string]string // role and title, or digest of an artifact -> file
	sums  map[string]string // file -> sha256
	list  []archiveOf

	artifacts int
}

// Folders in the folder of an opened bundle.
const (
	treeDir  = "tree"   // the plan's files
	blobDir  = "blobs"  // DIGEST/NAME
	imageDir = "images" // NUMBER.tar
	doneFile = "bundle.json"
	lockFile = "lock"
)

// done is what is kept of a bundle that was unpacked.
type done struct {
	Description description `json:"description"`
	Images      []archiveOf `json:"images"`
}

// Check verifies a bundle. Only what describes it and its plan is unpacked, into a folder below dir.
func Check(ctx context.Context, path, dir string) (*Opened, error) {
	return open(ctx, path, dir, true, nil)
}

// Open unpacks a bundle into a folder below cache, once, and verifies it. What an earlier run has unpacked stays.
func Open(ctx context.Context, path, cache string, say func(string)) (*Opened, error) {
	return open(ctx, path, cache, false, say)
}

func open(ctx context.Context, path, cache string, only bool, say func(string)) (*Opened, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	r, err := begin(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.in.Close()
	if say == nil {
		say = func(string) {}
	}
	o := &Opened{Sum: r.sum, path: path, only: only, dir: filepath.Join(cache, r.sum[:32])}
	if there, err := o.unpacked(); there || err != nil {
		return o, err
	}
	unlock, err := o.alone(ctx, say)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if there, err := o.unpacked(); there || err != nil { // by the run that was waited for
		return o, err
	}
	say("Unpacking the bundle into " + o.dir + ".")
	if err := o.unpack(r); err != nil {
		return nil, err
	}
	return o, nil
}

// unpacked reports whether an earlier run has unpacked the bundle.
func (o *Opened) unpacked() (bool, error) {
	var d done
	b, err := os.ReadFile(filepath.Join(o.dir, doneFile))
	if err == nil && json.Unmarshal(b, &d) == nil {
		o.list = d.Images
		return true, o.know(d.Description)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return false, err
}

// alone locks the folder for this run; another one may be unpacking the same bundle. The lock ends with its process.
func (o *Opened) alone(ctx context.Context, say func(string)) (unlock func(), err error) {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(o.dir, lockFile), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err == nil && !ok {
		say("Waiting for another run, which unpacks the bundle into " + o.dir + ".")
		_, err = lock.TryLockContext(ctx, 100*time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", o.dir, err)
	}
	return func() { _ = lock.Close() }, nil // closing unlocks
}

// unpack verifies the bundle and writes its files.
func (o *Opened) unpack(r *reader) error {
	raw := filepath.Join(o.dir, "raw")
	if err := os.MkdirAll(raw, 0o700); err != nil {
		return err
	}
	err := r.blobs(func(sha256 string, size int64, from io.Reader) error {
		return o.keep(filepath.Join(raw, sha256), size, from)
	})
	if err != nil {
		return err
	}
	read := func(sha256 string) ([]byte, error) {
		b, err := os.ReadFile(filepath.Join(raw, sha256))
		if errors.Is(err, fs.ErrNotExist) {
			err = &DamagedError{o.path, "the blob " + sha256 + " is not in it"}
		}
		return b, err
	}
	d, err := parse(o.path, r.index, read)
	if err != nil {
		return err
	}
	for _, l := range d.Layers {
		if err := o.place(raw, l); err != nil {
			return err
		}
	}
	i := &imager{from: raw, bundle: o.path, only: o.only, to: filepath.Join(o.dir, imageDir)}
	if o.list, err = i.all(r.index.Manifests[1:]); err != nil {
		return err
	}
	text, err := json.Marshal(done{d, o.list})
	if err != nil {
		return err
	}
	if err := o.know(d); err != nil {
		return err
	}
	if err := os.RemoveAll(raw); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(o.dir, doneFile), text, 0o600)
}

// keep writes a blob, unless an earlier run has.
func (o *Opened) keep(name string, size int64, from io.Reader) (err error) {
	if fi, err := os.Stat(name); err == nil && fi.Size() == size {
		return nil
	}
	w, err := os.OpenFile(name+unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	sum, to := newVerified(from), io.Writer(w)
	if o.only && size > mostJSON {
		to = io.Discard
	}
	_, err = io.Copy(to, sum)
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return err
	}
	if sum.hex() != filepath.Base(name) {
		return nil // the caller says so
	}
	return os.Rename(name+unfinished, name)
}

// at is where a file of a bundle is.
func (o *Opened) at(l v1.Descriptor) string {
	name := filepath.FromSlash(l.Annotations[title])
	switch string(l.MediaType) {
	case planFile:
		return filepath.Join(o.dir, treeDir, name)
	case packedAs(agentbin.TGZ):
		return filepath.Join(o.dir, agent[len("application/"):], name+agentbin.TGZ)
	case packedAs(agentbin.Zstd):
		return filepath.Join(o.dir, agent[len("application/"):], name+agentbin.Zstd)
	case agent, program, billFile, module:
		return filepath.Join(o.dir, string(l.MediaType)[len("application/"):], name)
	}
	return filepath.Join(o.dir, blobDir, l.Digest.Hex, name)
}

// place puts a file where it belongs. Files of the plan are copies: one blob may be several of them.
func (o *Opened) place(raw string, l v1.Descriptor) error {
	from, to := filepath.Join(raw, l.Digest.Hex), o.at(l)
	mode := fs.FileMode(0o600)
	if l.Annotations[executable] == "true" || string(l.MediaType) == program {
		mode = 0o700
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(l.MediaType) != planFile && os.Link(from, to) == nil {
		return os.Chmod(to, mode)
	}
	b, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return &DamagedError{o.path, "the blob " + l.Digest.Hex + " (" + l.Annotations[title] + ") is not in it"}
	}
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }() // it was only read
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, b)
	return errors.Join(err, w.Close())
}

// know notes where the files are.
func (o *Opened) know(d description) error {
	o.Config, o.files, o.sums = d.Config, map[string]string{}, map[string]string{}
	for _, l := range d.Layers {
		at := o.at(l)
		o.files[string(l.MediaType)+" "+l.Annotations[title]], o.sums[at] = at, l.Digest.Hex
		if string(l.MediaType) == artifact {
			o.artifacts++
			o.files["sha256:"+l.Digest.Hex] = at
			o.files["sha512:"+l.Annotations[sha512Key]] = at
		}
	}
	return nil
}

// PlanPath is the plan, as a path.
func (o *Opened) PlanPath() string { return filepath.Join(o.dir, treeDir, filepath.FromSlash(o.Plan)) }

// Bundle is what compiles the plan.
func (o *Opened) Bundle() *plan.Bundle {
	return &plan.Bundle{Root: filepath.Join(o.dir, treeDir), Own: filepath.Dir(o.path),
		File: func(src steps.Source) string {
			algorithm, want := src.Digest()
			return o.files[algorithm+":"+want]
		},
		Image: func(name, os, arch string) steps.Source {
			for _, i := range o.list {
				if i.Name == fullName(name) && i.OS == os && i.Arch == arch {
					return steps.Source{File: filepath.Join(o.dir, imageDir, i.File), SHA256: i.SHA256}
				}
			}
			return steps.Source{}
		}}
}

// Self returns a function that finds nodejoin for a node that follows a plan: the one that made the bundle, on any
// machine that applies it. Nodes of another platform, and sandboxes, have that of other.
func (o *Opened) Self(other func(goos, arch, connection string) (steps.Source, error)) func(
	goos, arch, connection string) (steps.Source, error) {
	return func(goos, arch, connection string) (steps.Source, error) {
		for key, file := range o.files {
			if goos+"/"+arch == o.Platform && connection != "sandbox" && strings.HasPrefix(key, program+" ") {
				return steps.Source{File: file, SHA256: o.sums[file]}, nil
			}
		}
		return other(goos, arch, connection)
	}
}

// Module is the archive of a module of the plan, and the archive's digest; "" = the bundle does not have it, or o is
// nil.
func (o *Opened) Module(sha256 string) (archive, digest string) {
	if o == nil {
		return "", ""
	}
	for key, file := range o.files {
		if strings.HasPrefix(key, module+" "+sha256+"/") {
			return file, o.sums[file]
		}
	}
	return "", ""
}

// Fits refuses a bundle that another version of nodejoin has made: its agents are for that.
func (o *Opened) Fits(version string) error {
	if o.Version == version {
		return nil
	}
	blob := ""
	for key, file := range o.files {
		if strings.HasPrefix(key, program+" ") {
			blob = blobName(o.sums[file])
		}
	}
	return fmt.Errorf("%s was made by nodejoin %q, and this is %s; use the nodejoin in it (for %s): "+
		"tar -xOf %[1]s %[5]s > nodejoin", ui.CleanLine(filepath.Base(o.path)), o.Version, version, ui.CleanLine(o.Platform),
		blob)
}

// Agent is the agent for a machine, as agentbin.Get.
func (o *Opened) Agent(_ context.Context, os, arch string) (path, sha256 string, err error) {
	path, ok := o.files[agent+" "+os+"-"+arch]
	if !ok {
		return "", "", fmt.Errorf("the bundle has no agent for %s/%s", os, arch)
	}
	return path, o.sums[path], nil
}
