package locker

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"nodejoin/plan/lock"
)

// Change is how an entry of a lock differs from the one before.
type Change struct {
	Old, New *lock.Entry // nil = not in that lock; not both
}

// Changes lists what differs between two locks, in the order of their entries. old may be nil.
func Changes(old, now *lock.File) (out []Change) {
	all := &lock.File{Entries: append([]lock.Entry(nil), now.Entries...)}
	if old != nil {
		for _, e := range old.Entries {
			if now.Lookup(e.Name, e.Platform) == nil {
				all.Entries = append(all.Entries, e)
			}
		}
	}
	all.Sort()
	for _, e := range all.Entries {
		c := Change{old.Lookup(e.Name, e.Platform), now.Lookup(e.Name, e.Platform)}
		if c.Old == nil || c.New == nil || !c.Old.Same(*c.New) {
			out = append(out, c)
		}
	}
	return out
}

// Write shows changes as text. clean makes text of the plan and of servers harmless.
func Write(w io.Writer, list []Change, clean func(string) string) {
	for _, c := range list {
		sign, e := "~", c.New
		switch {
		case c.Old == nil:
			sign = "+"
		case c.New == nil:
			sign, e = "-", c.Old
		}
		fmt.Fprintf(w, "%s %s %s\n", sign, clean(e.Name), clean(e.Platform))
		for _, f := range fields(c.Old, c.New) {
			switch {
			case f.old == f.now && c.Old != nil && c.New != nil, f.old == "" && f.now == "", c.New == nil:
			case c.Old == nil:
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
