// Package bundle makes the bug report of logs: a zip file that is safe to unpack, bounded, and without secrets.
package bundle

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/collect"
)

const (
	// MaxSize bounds the content of a bundle before it is compressed, in bytes.
	MaxSize = 64 << 20
	// maxEntries bounds the files of a bundle, and the lines of missing.txt.
	maxEntries = 10_000
)

// Bundle is the content of a bug report, a zip file. Secrets are removed from everything, even if a host has done so
// before.
type Bundle struct {
	entries []entry
	lacks   []string // "win-1/logs/x.log: why"
	known   []string // secrets
	size    int
	names   map[string]int // the last number that was put to a name, by its lower case; 1 = none
}

type entry struct {
	name string
	text string
}

// Missing notes what could not be had, and why.
func (b *Bundle) Missing(name, why string) {
	switch n := len(b.lacks); {
	case n > maxEntries:
		return
	case n == maxEntries:
		b.lacks = append(b.lacks, "more is missing; the list ends here")
		return
	}
	b.lacks = append(b.lacks, ui.CleanLine(name)+": "+steps.Redact(ui.CleanLine(why), b.known))
}

// Add adds a file; beyond the limits it notes that as missing.
func (b *Bundle) Add(name, text string) {
	text = steps.Redact(text, b.known)
	if b.size += len(text); b.size > MaxSize {
		b.size -= len(text)
		b.Missing(name, fmt.Sprintf("left out: the limit of %d MiB is reached", MaxSize>>20))
		return
	}
	if len(b.entries) >= maxEntries {
		b.Missing(name, fmt.Sprintf("left out: the limit of %d entries is reached", maxEntries))
		return
	}
	b.entries = append(b.entries, entry{name, text})
}

// JSON adds a file with v.
func (b *Bundle) JSON(name string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		b.Missing(name, err.Error())
		return
	}
	b.Add(name, string(text)+"\n")
}

// New is an empty bundle; known are secrets that are removed from everything.
func New(known []string) *Bundle { return &Bundle{known: known} }

// Entries is the number of files.
func (b *Bundle) Entries() int { return len(b.entries) }

// Lacks are the lines of what is missing, each with its reason.
func (b *Bundle) Lacks() []string { return slices.Clone(b.lacks) }

// Part adds what a host calls by a name of its own.
func (b *Bundle) Part(dir string, p collect.Part) {
	switch {
	case p.Missing != "":
		b.Missing(dir+p.Name, p.Missing)
	case p.Cut:
		b.Add(b.name(dir, p.Name), "(only the end)\n"+p.Text)
	default:
		b.Add(b.name(dir, p.Name), p.Text)
	}
}

// Zip is the file, with a list of what is missing.
func (b *Bundle) Zip() ([]byte, error) {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, e := range append(b.entries, entry{"missing.txt", strings.Join(append(b.lacks, ""), "\n")}) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: time.Now()})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// name makes the name of an entry in the folder dir, which ends in a slash, of what a host
// calls it. Each name is used once, also on systems that ignore case.
func (b *Bundle) name(dir, said string) string {
	var parts []string
	for _, p := range strings.FieldsFunc(said, func(r rune) bool { return r == '\\' || r == '/' || r == ':' }) {
		if p != "." && len(parts) < maxElements {
			parts = append(parts, element(p))
		}
	}
	if len(parts) == 0 {
		parts = []string{"_"}
	}
	name := dir + strings.Join(parts, "/")
	if b.names == nil {
		b.names = map[string]int{}
	}
	first, end := name, path.Ext(name)
	key := strings.ToLower(first)
	for n := max(b.names[key], 1) + 1; b.names[strings.ToLower(name)] > 0; n++ {
		name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(first, end), n, end)
		b.names[key] = n
	}
	b.names[strings.ToLower(name)] = max(b.names[strings.ToLower(name)], 1)
	return name
}
