// Package lock is the format of a plan's lock file: which bytes each artifact, image and module of the plan has, where
// they come from, and who vouches for them. 'nodejoin lock' writes it; the plan reads it.
package lock

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

const (
	// FileName is the lock of a folder's plan, beside its files.
	FileName = "nodejoin.lock.hcl"
	// Suffix ends the name of every lock. A plan of one file among others in a folder has its own: a.join.hcl has
	// a.lock.hcl.
	Suffix = ".lock.hcl"
)

// format is the version of the file's form.
const format = 1

// How an artifact was verified when it was locked.
const (
	Signature = "signature" // its publisher has signed the digest
	Checksum  = "checksum"  // its publisher's checksum file names the digest
	Digest    = "digest"    // the plan itself gives a digest, and the bytes have it
	None      = "none"      // nobody vouches for the digest: it is that of the bytes as they were read
)

// Ways are the ways to verify an artifact, the weakest first.
func Ways() []string { return []string{None, Digest, Checksum, Signature} }

// AtLeast reports whether a way to verify is as strong as another one.
func AtLeast(have, want string) bool { return slices.Index(Ways(), have) >= slices.Index(Ways(), want) }

// Entry is one artifact for the nodes of one system.
type Entry struct {
	Name     string    // containerd
	Platform string    // windows/amd64
	Version  string    // "" = no block of the plan gives one
	Address  string    // https://..., mirror:FILE or file:PATH
	Size     int64     // bytes
	SHA256   string    // lower-case hex
	SHA512   string    // the same; "" = the plan gives none
	Verified string    // one of the constants
	Checksum string    // address of the checksum file; "" = none
	Signer   string    // who signed it, as the certificate names him; "" = not verified by a signature
	Issuer   string    // who vouched for the signer
	Bundle   string    // the signature, a Sigstore bundle in base64
	Range    hcl.Range // in the file that it was read from
}

// Same reports whether two entries say the same, wherever they stand.
func (e Entry) Same(o Entry) bool {
	e.Range, o.Range = hcl.Range{}, hcl.Range{}
	return e == o
}

// File is a lock. A nil File is that of a plan without one.
type File struct {
	Entries []Entry
	Images  []Image // none = the images of the plan are not locked
	Modules []Module
}

// Lookup returns the entry of an artifact; nil = none.
func (f *File) Lookup(name, platform string) *Entry {
	if f == nil {
		return nil
	}
	for i := range f.Entries {
		if e := &f.Entries[i]; e.Name == name && e.Platform == platform {
			return e
		}
	}
	return nil
}

// LookupImage returns the entry of an image; nil = none.
func (f *File) LookupImage(name, platform string) *Image {
	if f == nil {
		return nil
	}
	for n := range f.Images {
		if i := &f.Images[n]; i.Name == name && i.Platform == platform {
			return i
		}
	}
	return nil
}

// LookupModule returns the entry of a module; nil = none.
func (f *File) LookupModule(address string) *Module {
	if f == nil {
		return nil
	}
	for n := range f.Modules {
		if f.Modules[n].Address == address {
			return &f.Modules[n]
		}
	}
	return nil
}

// Sort puts what the lock has into the order of the file.
func (f *File) Sort() {
	slices.SortFunc(f.Modules, func(a, b Module) int { return strings.Compare(a.Address, b.Address) })
	slices.SortFunc(f.Images, func(a, b Image) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Platform, b.Platform))
	})
	slices.SortFunc(f.Entries, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Platform, b.Platform))
	})
}
