package planbundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"nodejoin/cmd/nodejoin/internal/mirror"
	"nodejoin/cmd/nodejoin/internal/modules"
	"nodejoin/cmd/nodejoin/internal/registry"
	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/steps"
	"nodejoin/steps/agentbin"
	"nodejoin/steps/kinds"
)

// Collector finds what a bundle has.
type Collector struct {
	Plan     *plan.Compiled
	Path     string   // of the plan: its folder, or one file
	Files    []string // of the plan, absolute
	Version  string   // of this nodejoin
	Registry *registry.Client
	// OpenAt returns the bytes of an artifact from an offset on; size is that of the whole.
	OpenAt func(ctx context.Context, src steps.Source, off, size int64) (io.ReadCloser, error)
	// Open returns the bytes of an artifact whose size nobody knows.
	Open func(ctx context.Context, src steps.Source) (io.ReadCloser, int64, error)
	// Spool is a folder for artifacts whose size nobody knows.
	Spool string
}

// RootOf is the folder that has the plan and all of its files.
func RootOf(planPath string, files []string) string {
	root, err := filepath.Abs(planPath)
	if err != nil {
		root = planPath
	}
	if strings.HasSuffix(root, plan.Suffix) {
		root = filepath.Dir(root)
	}
	for _, f := range files {
		for {
			rel, err := filepath.Rel(root, f)
			if err == nil && filepath.IsLocal(rel) || root == filepath.Dir(root) {
				break
			}
			root = filepath.Dir(root)
		}
	}
	return root
}

// Collect finds the contents. It reads what describes images, and hashes files of this machine.
func (c *Collector) Collect(ctx context.Context) (*Contents, error) {
	root := RootOf(c.Path, c.Files)
	at, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, at)
	if err != nil {
		return nil, err
	}
	out := &Contents{Config: Config{Version: c.Version, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Plan: filepath.ToSlash(rel), Environment: c.Plan.Environment}}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	nodejoin, err := ofFile(ctx, "nodejoin", self)
	if err != nil {
		return nil, err
	}
	out.add(program, "nodejoin"+exe(runtime.GOOS), nodejoin, nil)
	materials, err := bill(c.Plan, c.Version)
	if err != nil {
		return nil, err
	}
	out.add(billFile, "sbom.spdx.json", text("the bill of materials", materials), nil)
	for _, step := range []func(context.Context, *Contents) error{func(ctx context.Context, o *Contents) error {
		return c.files(ctx, o, root)
	}, c.modules, c.agents, c.artifacts, c.images} {
		if err := step(ctx, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func exe(os string) string {
	if os == "windows" {
		return ".exe"
	}
	return ""
}

// files adds those of the plan.
func (c *Collector) files(_ context.Context, out *Contents, root string) error {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(c.Files))) {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fi, err := os.Stat(name)
		if err != nil {
			return err
		}
		var notes map[string]string
		if fi.Mode()&0o111 != 0 {
			notes = map[string]string{executable: "true"}
		}
		out.add(planFile, filepath.ToSlash(rel), text(name, b), notes)
	}
	return nil
}

// modules adds the archives of those that are not beside the plan.
func (c *Collector) modules(ctx context.Context, out *Contents) error {
	seen := map[string]bool{}
	for _, m := range c.Plan.Modules {
		if seen[m.SHA256] {
			continue
		}
		seen[m.SHA256] = true
		at, err := modules.Archive(m)
		if err != nil {
			return err
		}
		f, err := ofFile(ctx, "the module "+steps.ShowURL(m.Address), at)
		if err != nil {
			return err
		}
		out.add(module, m.SHA256+"/"+filepath.Base(at), f, nil)
	}
	return nil
}

// agents adds those that go to hosts over SSH and WinRM.
func (c *Collector) agents(ctx context.Context, out *Contents) error {
	seen := map[string]bool{}
	for _, n := range c.Plan.Nodes {
		platform := n.OS + "-" + n.Arch
		if n.Connection.SSH == nil && n.Connection.WinRM == nil || seen[platform] {
			continue
		}
		seen[platform] = true
		at, sum, err := agentbin.Get(ctx, n.OS, n.Arch)
		if err == nil {
			err = agentbin.Unpack(at, sum)
		}
		if err != nil {
			return err
		}
		form := agentbin.Carried(n.OS)
		for role, file := range map[string]string{agent: at, packedAs(form): at + form} {
			f, err := ofFile(ctx, "the agent for "+n.OS+"/"+n.Arch, file)
			if err != nil {
				return err
			}
			out.add(role, platform, f, nil)
		}
	}
	return nil
}

// artifacts adds what the steps of the nodes install.
func (c *Collector) artifacts(ctx context.Context, out *Contents) error {
	seen := map[string]bool{}
	for _, n := range c.Plan.Nodes {
		for _, s := range n.Steps {
			src, ok := kinds.Installs(s)
			_, want := src.Digest()
			if !ok || seen[want] {
				continue
			}
			seen[want] = true
			if err := c.artifact(ctx, out, src); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Collector) artifact(ctx context.Context, out *Contents, src steps.Source) error {
	var notes map[string]string
	algorithm, want := src.Digest()
	if algorithm == "sha512" {
		notes = map[string]string{sha512Key: want}
	}
	if a, e := lockedAs(c.Plan, src); e != nil {
		from := mirror.Source(a, e)
		f := File{Name: a.Name + " for " + a.Platform(), Size: e.Size, SHA256: e.SHA256,
			Open: func() (io.ReadCloser, error) { return c.OpenAt(ctx, from, 0, e.Size) }}
		out.add(artifact, cmp.Or(a.MirrorFile, fileName(src)), f, notes)
		return nil
	}
	at := src.File
	if at == "" {
		var err error
		if at, err = c.spool(ctx, src); err != nil {
			return &FileError{src.Name(), err}
		}
	}
	f, err := ofFile(ctx, src.Name(), at)
	if err != nil {
		return err
	}
	if src.SHA256 != "" && f.SHA256 != src.SHA256 {
		return &FileError{src.Name(), &mirror.WrongBytesError{From: src.Name(), Size: f.Size, Digest: f.SHA256,
			Want: src.SHA256}}
	}
	out.add(artifact, fileName(src), f, notes)
	return nil
}

// fileName is the name of an artifact's file: by its end the steps know what kind of archive it is.
func fileName(src steps.Source) string {
	name := filepath.ToSlash(src.Name())
	if src.File == "" {
		name, _, _ = strings.Cut(name, "?")
	}
	return strings.Map(func(r rune) rune {
		if r == ':' || r == '\\' {
			return '_'
		}
		return r
	}, path.Base(name))
}

// spool reads an artifact whose size nobody knows into a file.
func (c *Collector) spool(ctx context.Context, src steps.Source) (name string, err error) {
	r, _, err := c.Open(ctx, src)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	algorithm, want := src.Digest()
	w, err := os.CreateTemp(c.Spool, "artifact-*")
	if err != nil {
		return "", err
	}
	sum := steps.NewHash(algorithm)
	n, err := io.Copy(io.MultiWriter(w, sum), &bounded{ctx, r})
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	if have := fmt.Sprintf("%x", sum.Sum(nil)); have != want {
		return "", &mirror.WrongBytesError{From: src.Name(), Size: n, Digest: have, Want: want}
	}
	return w.Name(), nil
}

// images adds those of the lock.
func (c *Collector) images(ctx context.Context, out *Contents) error {
	if c.Plan.Lock == nil {
		return nil
	}
	byName := map[string][]lock.Image{}
	for _, i := range c.Plan.Lock.Images {
		byName[i.Name] = append(byName[i.Name], i)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		top, parts, err := c.Registry.Parts(ctx, byName[name])
		if err != nil {
			return &FileError{"the image " + name, err}
		}
		out.addImage(name, top, parts)
	}
	return nil
}

// ofFile is a file of this machine.
func ofFile(ctx context.Context, name, at string) (File, error) {
	open := func() (io.ReadCloser, error) { return os.Open(at) }
	r, err := os.Open(at)
	if err != nil {
		return File{}, &FileError{name, err}
	}
	n, sum, err := digestOf(&bounded{ctx, r})
	return File{Name: name, Size: n, SHA256: sum, Open: open}, errors.Join(err, r.Close())
}
