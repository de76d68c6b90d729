package locker

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"nodejoin/plan/lock"
)

// Change is how an entry of a lock differs from the one before.
type Change struct {
	what     string // containerd windows/amd64
	old, now bool   // whether it is in that lock
	fields   []field
}

// Changes lists what differs between two locks, in the order of their entries. old may be nil.
func Changes(old, now *lock.File) (out []Change) {
	all := &lock.File{Entries: slices.Clone(now.Entries), Images: slices.Clone(now.Images),
		Modules: slices.Clone(now.Modules)}
	if old != nil {
		for _, e := range old.Entries {
			if now.Lookup(e.Name, e.Platform) == nil {
				all.Entries = append(all.Entries, e)
			}
		}
		for _, i := range old.Images {
			if now.LookupImage(i.Name, i.Platform) == nil {
				all.Images = append(all.Images, i)
			}
		}
		for _, m := range old.Modules {
			if now.LookupModule(m.Address) == nil {
				all.Modules = append(all.Modules, m)
			}
		}
	}
	all.Sort()
	for _, e := range all.Entries {
		a, b := old.Lookup(e.Name, e.Platform), now.Lookup(e.Name, e.Platform)
		if a == nil || b == nil || !a.Same(*b) {
			out = append(out, Change{e.Name + " " + e.Platform, a != nil, b != nil, fields(a, b)})
		}
	}
	for _, i := range all.Images {
		a, b := old.LookupImage(i.Name, i.Platform), now.LookupImage(i.Name, i.Platform)
		if a == nil || b == nil || !a.Same(*b) {
			out = append(out, Change{"image " + i.Name + " " + i.Platform, a != nil, b != nil, imageFields(a, b)})
		}
	}
	for _, m := range all.Modules {
		a, b := digestOf(old.LookupModule(m.Address)), digestOf(now.LookupModule(m.Address))
		if a != b {
			out = append(out, Change{"module " + m.Address, a != "", b != "", []field{{"sha256", a, b}}})
		}
	}
	return out
}

// digestOf is that of a module; "" = there is none.
func digestOf(m *lock.Module) string {
	if m == nil {
		return ""
	}
	return m.SHA256
}

// Write shows changes as text. clean makes text of the plan and of servers harmless.
func Write(w io.Writer, list []Change, clean func(string) string) {
	for _, c := range list {
		sign := "~"
		switch {
		case !c.old:
			sign = "+"
		case !c.now:
			sign = "-"
		}
		fmt.Fprintf(w, "%s %s\n", sign, clean(c.what))
		for _, f := range c.fields {
			switch {
			case f.old == f.now && c.old && c.now, f.old == "" && f.now == "", !c.now:
			case !c.old:
				fmt.Fprintf(w, "    %-9s %s\n", f.name, clean(f.now))
			default:
				fmt.Fprintf(w, "    %-9s %s -> %s\n", f.name, orNone(clean(f.old)), orNone(clean(f.now)))
			}
		}
	}
}

type field struct{ name, old, now string }

// fields are what entries say, by name; an entry that is nil says nothing.
func fields(old, now *lock.Entry) []field {
	var a, b lock.Entry
	if old != nil {
		a = *old
	}
	if now != nil {
		b = *now
	}
	return []field{
		{"version", a.Version, b.Version}, {"address", a.Address, b.Address}, {"size", bytesOf(a.Size), bytesOf(b.Size)},
		{"sha256", a.SHA256, b.SHA256}, {"sha512", a.SHA512, b.SHA512}, {"verified", a.Verified, b.Verified},
		{"checksum", a.Checksum, b.Checksum}, {"signer", a.Signer, b.Signer}, {"issuer", a.Issuer, b.Issuer},
		{"signature", short(a.Bundle), short(b.Bundle)},
	}
}

func imageFields(old, now *lock.Image) []field {
	var a, b lock.Image
	if old != nil {
		a = *old
	}
	if now != nil {
		b = *now
	}
	return []field{
		{"index", a.Index, b.Index}, {"digest", a.Digest, b.Digest}, {"size", bytesOf(a.Size), bytesOf(b.Size)},
	}
}

// short names a signature by the start of its digest.
func short(bundle string) string {
	if bundle == "" {
		return ""
	}
	return fmt.Sprintf("%.6x", sha256.Sum256([]byte(bundle)))
}

func bytesOf(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes", n)
}

func orNone(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(none)"
	}
	return s
}

// Counted says how much a lock has: 5 artifacts, 1 image and 2 modules.
func Counted(f *lock.File) string {
	var list []string
	for _, of := range []struct {
		n    int
		what string
	}{{len(f.Entries), "artifact"}, {len(f.Images), "image"}, {len(f.Modules), "module"}} {
		switch {
		case of.n == 1:
			list = append(list, "1 "+of.what)
		case of.n > 0 || of.what == "artifact":
			list = append(list, fmt.Sprintf("%d %ss", of.n, of.what))
		}
	}
	last := len(list) - 1
	if last == 0 {
		return list[0]
	}
	return strings.Join(list[:last], ", ") + " and " + list[last]
}
