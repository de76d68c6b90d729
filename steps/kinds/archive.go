package kinds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var archiveKind = steps.Kind{Name: "archive", Place: steps.OnHost, Image: true,
	Doc: "files unpacked from an archive that is verified by digest",
	Args: map[string]string{
		"versions": "version that a program in it must have, by file name, for example { \"kubelet.exe\" = \"v1.36.3\" }; " +
			"a Go program that does not contain it is refused, and nothing is put in place",
	},
	New:      func() any { return &Archive{} },
	Claims:   steps.Claims((*Archive).claims),
	Installs: steps.Installs(func(a *Archive) steps.Source { return a.Source }),
	Render:   steps.RendersInto(artifactList)}

// artifactList is the file of render that lists what is fetched.
const artifactList = "artifacts.json"

// Archive is a set of files unpacked from one archive (.tar, .tar.gz, .tgz, .zip).
type Archive struct {
	steps.Source
	To       string   `json:"to" doc:"absolute folder that receives the files" id:"true" path:"true"`
	Strip    int      `json:"strip,omitempty" doc:"leading folders of member names to drop"`
	Include  []string `json:"include,omitempty" doc:"patterns (path.Match) of member names to unpack; default all"`
	Services []string `json:"services,omitempty" doc:"services to stop before files are replaced"`
	// Versions by the names of files in the archive.
	Versions map[string]string `json:"versions,omitempty"`
}

// identity is what the record keeps as the digest of the archive: the digest
// itself, and what was taken from it to where when that is not everything.
func (a *Archive) identity() string {
	alg, digest := a.Digest()
	id := alg + ":" + digest + ";to=" + a.To
	if a.Strip != 0 {
		id += fmt.Sprintf(";strip=%d", a.Strip)
	}
	if len(a.Include) > 0 {
		id += fmt.Sprintf(";include=%q", a.Include)
	}
	return id
}

// identityParts are the arguments that an identity is of.
var identityParts = regexp.MustCompile(`^(.*?)(?:;to=(.*?))?(?:;strip=(\d+))?(?:;include=\[(.*)\])?$`)

// identityDiffs says which arguments two identities differ in.
func identityDiffs(have, want string) (out []steps.Diff) {
	h, w := identityParts.FindStringSubmatch(have), identityParts.FindStringSubmatch(want)
	if h == nil || w == nil {
		return []steps.Diff{{Name: "archive", Have: "another", Want: "this one"}}
	}
	for i, name := range []string{"digest", "to", "strip", "include"} {
		if h[i+1] != w[i+1] {
			out = append(out, steps.Diff{Name: name, Have: h[i+1], Want: w[i+1]})
		}
	}
	return out
}

// claims are the files that were unpacked. What another archive will bring is not known
// until it is unpacked: till then all that it may replace counts.
func (a *Archive) claims(e *steps.Env) (out []record.Key) {
	unpacked := e.Record.Archives[e.StepID]
	for path := range unpacked.Files {
		out = append(out, record.File.Of(path))
	}
	if unpacked.Digest == a.identity() {
		return out
	}
	for key := range e.Record.Claims {
		if key.Prefix == record.File && host.Within(e.Facts.OS, a.To, key.Name) {
			out = append(out, key)
		}
	}
	return out
}

func (a *Archive) validate() error {
	if err := validSource(a.Source); err != nil {
		return err
	}
	if a.Strip < 0 {
		return steps.Invalid("strip is %d; it counts folders", a.Strip)
	}
	for _, p := range a.Include {
		if _, err := path.Match(p, ""); err != nil {
			return steps.Invalid("include %q is not a pattern: %v", p, err)
		}
	}
	return nil
}

func (a *Archive) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := a.validate(); err != nil {
		return steps.Change{}, err
	}
	rec, ok := e.Record.Archives[e.StepID]
	if !ok {
		fi, err := r.Stat(ctx, a.To)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return steps.Change{}, err
		}
		return a.diff(nil, nil, err == nil && fi.Dir), nil
	}
	have := map[string]string{}
	for p := range rec.Files {
		d, err := e.FileDigest(ctx, r, p)
		if err != nil {
			return steps.Change{}, err
		}
		have[p] = d
	}
	c := a.diff(&rec, have, true)
	if len(c.Diffs) > 0 && rec.Digest != a.identity() {
		return c, nil
	}
	for _, p := range rec.Programs {
		fi, err := r.Stat(ctx, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue // diff has it
		}
		if err != nil {
			return c, err
		}
		for _, d := range programDiff(e, fi) {
			d.Name = "access of " + p
			c.Action, c.Diffs = steps.ActionUpdate, append(c.Diffs, d)
		}
	}
	return c, nil
}

// diff compares the recorded unpacking (nil: none) and the files found, path to
// sha256 or "" where absent, with what is wanted.
func (a *Archive) diff(rec *record.Unpacked, have map[string]string, folder bool) steps.Change {
	c := steps.Change{Action: steps.ActionUpdate, Blobs: blobs(a.Source)}
	for _, s := range a.Services {
		c.Touches = append(c.Touches, steps.Touch{Service: s})
	}
	if rec == nil {
		// What a folder without a record holds may be replaced, so its services count.
		c.Action, c.Touches = steps.ActionCreate, append(c.Touches, steps.Touch{Path: a.To})
		if !folder {
			c.Touches = []steps.Touch{{Path: a.To}}
		}
		return c
	}
	if rec.Digest != a.identity() {
		c.Reason = "another archive or selection was unpacked before; files of it that this one lacks are removed"
		c.Diffs = append(c.Diffs, identityDiffs(rec.Digest, a.identity())...)
		c.Touches = append(c.Touches, steps.Touch{Path: a.To})
		return c
	}
	for _, p := range slices.Sorted(maps.Keys(rec.Files)) {
		if have[p] == rec.Files[p] {
			continue
		}
		d := steps.Diff{Name: p, Have: "absent", Want: "sha256 " + rec.Files[p]}
		if have[p] != "" {
			d.Have = "sha256 " + have[p]
		}
		c.Diffs = append(c.Diffs, d)
		c.Touches = append(c.Touches, steps.Touch{Path: p})
		if c.Digests == nil {
			c.Digests = map[string]string{}
		}
		c.Digests[p] = rec.Files[p]
	}
	if len(c.Diffs) == 0 {
		return steps.Change{}
	}
	return c
}

// dest is where a member goes; "" if it is not wanted.
func (a *Archive) dest(os, member string) string {
	if len(a.Include) > 0 && !slices.ContainsFunc(a.Include,
		func(p string) bool { ok, _ := path.Match(p, member); return ok }) {
		return ""
	}
	parts := strings.Split(member, "/")
	if len(parts) <= a.Strip {
		return ""
	}
	return host.Join(os, append([]string{a.To}, parts[a.Strip:]...)...)
}

func (a *Archive) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	if rec, whole, err := a.unpacked(ctx, h, e); whole || err != nil {
		if err == nil {
			err = executable(ctx, h, e, rec.Programs)
		}
		return steps.Outcome{}, err
	}
	s := &staging{host: h, env: e, Unpacked: record.Unpacked{Digest: a.identity(), Files: map[string]string{}},
		have: map[string]string{}}
	err := a.stage(ctx, s)
	if err == nil {
		err = s.settle(ctx, a.Services)
	}
	if err != nil {
		for _, p := range slices.Sorted(maps.Keys(s.Files)) {
			discard(ctx, h, host.TempName(p))
		}
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, a.moveIn(ctx, s)
}

// unpacked is what the record has of this archive, and whether all of its files are as they were unpacked.
func (a *Archive) unpacked(ctx context.Context, r host.Reader, e *steps.Env) (record.Unpacked, bool, error) {
	rec, ok := e.Record.Archives[e.StepID]
	if !ok || rec.Digest != a.identity() {
		return rec, false, nil
	}
	for p, want := range rec.Files {
		if d, err := e.FileDigest(ctx, r, p); err != nil || d != want {
			return rec, false, err
		}
	}
	return rec, true, nil
}

// programDiff compares the access of a program of an archive that nodejoin has unpacked.
func programDiff(e *steps.Env, fi host.FileInfo) []steps.Diff {
	if fi.Writable {
		fi.Access = accessWritable
	}
	return accessDiff(e.Facts.OS, fi.Access, host.AccessProgram)
}

// executable sets the access of programs that have another one.
func executable(ctx context.Context, h host.Host, e *steps.Env, programs []string) error {
	for _, p := range programs {
		fi, err := h.Stat(ctx, p)
		if err == nil && programDiff(e, fi) != nil {
			err = h.SetAccess(ctx, p, host.AccessProgram)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stage unpacks every wanted member while the whole archive goes through its digest, and fails unless that holds.
func (a *Archive) stage(ctx context.Context, s *staging) error {
	e := s.env
	d, err := fetch(ctx, e, a.Source)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	keys := map[string]string{} // path key -> member
	err = e.Artifacts.Unpack(ctx, d, a.Name(), e.Facts.OS, func(m steps.Member, r io.Reader) error {
		p := a.dest(e.Facts.OS, m.Name)
		if p == "" {
			return nil
		}
		key := host.PathKey(e.Facts.OS, p)
		if first, ok := keys[key]; ok {
			return steps.Invalid("%s: members %s and %s would both become %s", a.Name(), first, m.Name, p)
		}
		keys[key] = m.Name
		access := host.AccessDefault
		if m.Executable {
			access = host.AccessProgram
			s.Programs = append(s.Programs, p)
		}
		sum, scan := sha256.New(), scanFor(m.Name, a.Versions)
		through := []io.Writer{sum}
		if scan != nil {
			through = append(through, scan)
		}
		s.Files[p] = ""
		if err := s.add(ctx, p, access, io.TeeReader(r, io.MultiWriter(through...))); err != nil {
			return err
		}
		s.Files[p] = hex.EncodeToString(sum.Sum(nil))
		return scan.fault(m.Name, a.Name())
	})
	// Bytes that are not those that were promised explain any trouble with unpacking
	// them; trouble with the host does not depend on them.
	var onHost *host.Error
	if ctx.Err() != nil || errors.As(err, &onHost) {
		return err
	}
	if end := d.drain(); end != nil {
		return end
	}
	slices.Sort(s.Programs)
	if err == nil && len(s.Files) == 0 {
		err = steps.Invalid("%s: no member matches include %q with strip %d", a.Name(), a.Include, a.Strip)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Versions)) {
		if err == nil && !slices.ContainsFunc(slices.Sorted(maps.Keys(s.Files)),
			func(p string) bool { return host.Base(e.Facts.OS, p) == name }) {
			err = steps.Invalid("%s: versions names %q, and no such file is unpacked", a.Name(), name)
		}
	}
	return err
}

// moveIn puts the members in their places, stopping what runs from those that it replaces, and notes them in the
// record.
func (a *Archive) moveIn(ctx context.Context, s *staging) error {
	h, e := s.host, s.env
	paths := slices.Sorted(maps.Keys(s.Files))
	// A program that was deleted may run all the same.
	replaces := slices.ContainsFunc(paths, func(p string) bool { return s.have[p] != s.Files[p] })
	if replaces {
		if err := stopUsers(ctx, h, e, a.Services); err != nil {
			return err
		}
	}
	for i, p := range paths {
		next := ""
		if i+1 < len(paths) {
			next = paths[i+1]
		}
		err := s.put(ctx, p, next)
		if err == nil {
			err = e.Stamp(ctx, h, p, s.Files[p])
		}
		if err != nil {
			return err
		}
	}
	if err := executable(ctx, h, e, s.Programs); err != nil {
		return err
	}
	e.SetArchive(s.Unpacked)
	return nil
}
