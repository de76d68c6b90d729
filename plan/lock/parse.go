package lock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"nodejoin/steps"
)

// document is the file as HCL.
type document struct {
	Format    int           `hcl:"format"`
	Artifacts []block       `hcl:"artifact,block"`
	Images    []imageBlock  `hcl:"image,block"`
	Modules   []moduleBlock `hcl:"module,block"`
}

type block struct {
	Name     string    `hcl:"name,label"`
	Platform string    `hcl:"platform,label"`
	Version  string    `hcl:"version,optional"`
	Address  string    `hcl:"address"`
	Size     int64     `hcl:"size"`
	SHA256   string    `hcl:"sha256"`
	SHA512   string    `hcl:"sha512,optional"`
	Verified string    `hcl:"verified"`
	Checksum string    `hcl:"checksum,optional"`
	Signer   string    `hcl:"signer,optional"`
	Issuer   string    `hcl:"issuer,optional"`
	Bundle   string    `hcl:"bundle,optional"`
	At       hcl.Range `hcl:",def_range"`
}

const remedy = " Restore the file from version control; or remove it, and 'nodejoin lock' writes it again."

// Decode reads the body of a lock file. With an error the File is nil.
func Decode(body hcl.Body) (*File, hcl.Diagnostics) {
	// The form first: what a newer nodejoin writes may have other blocks, too.
	var of struct {
		Format int       `hcl:"format"`
		At     hcl.Range `hcl:"format,attr_range"`
		Rest   hcl.Body  `hcl:",remain"`
	}
	if list := gohcl.DecodeBody(body, nil, &of); list.HasErrors() {
		return nil, Damaged(list)
	}
	if of.Format != format {
		return nil, hcl.Diagnostics{fault(of.At, "lock of another nodejoin", "The file has format %d, and this nodejoin "+
			"reads format %d. Use the nodejoin that wrote it, or a newer one.", of.Format, format)}
	}
	var d document
	if list := gohcl.DecodeBody(body, nil, &d); list.HasErrors() {
		return nil, Damaged(list)
	}
	f := &File{}
	var list hcl.Diagnostics
	lines := map[[2]string]int{} // of the entries, by name and platform
	for _, b := range d.Artifacts {
		e := Entry{Name: b.Name, Platform: b.Platform, Version: b.Version, Address: b.Address, Size: b.Size,
			SHA256: b.SHA256, SHA512: b.SHA512, Verified: b.Verified, Checksum: b.Checksum, Signer: b.Signer,
			Issuer: b.Issuer, Bundle: b.Bundle, Range: b.At}
		if why := e.wrong(); why != "" {
			list = append(list, fault(b.At, "damaged lock", "%s."+remedy, why))
		} else if first := lines[[2]string{e.Name, e.Platform}]; first > 0 {
			list = append(list, fault(b.At, "damaged lock", "There is another entry for %s on %s in line %d."+remedy, e.Name,
				e.Platform, first))
		}
		lines[[2]string{e.Name, e.Platform}] = b.At.Start.Line
		f.Entries = append(f.Entries, e)
	}
	for _, b := range d.Images {
		i := Image{b.Name, b.Platform, b.Index, b.Digest, b.Size, b.At}
		if why := i.wrong(); why != "" {
			list = append(list, fault(b.At, "damaged lock", "%s."+remedy, why))
		} else if first := f.LookupImage(i.Name, i.Platform); first != nil {
			list = append(list, fault(b.At, "damaged lock", "There is another entry for the image %s on %s in line %d."+remedy,
				i.Name, i.Platform, first.Range.Start.Line))
		}
		f.Images = append(f.Images, i)
	}
	for _, b := range d.Modules {
		m := Module{b.Address, b.SHA256, b.At}
		if why := m.wrong(); why != "" {
			list = append(list, fault(b.At, "damaged lock", "%s."+remedy, why))
		} else if first := f.LookupModule(m.Address); first != nil {
			list = append(list, fault(b.At, "damaged lock", "There is another entry for the module %s in line %d."+
				remedy, m.Address, first.Range.Start.Line))
		}
		f.Modules = append(f.Modules, m)
	}
	if list.HasErrors() {
		return nil, list
	}
	return f, nil
}

// Damaged adds to what is wrong with a lock's text how to fix it.
func Damaged(list hcl.Diagnostics) hcl.Diagnostics {
	for _, g := range list {
		g.Detail = fmt.Sprintf("%s: %s", g.Summary, g.Detail) + remedy
		g.Summary = "damaged lock"
	}
	return list[:min(len(list), 1)] // the rest follows from it
}

// wrong says what is wrong with an entry; "" = nothing.
func (e Entry) wrong() string {
	switch {
	case steps.DigestAlgorithm(e.SHA256) != "sha256":
		return "The sha256 of this entry is not 64 hex digits in lower case"
	case e.SHA512 != "" && steps.DigestAlgorithm(e.SHA512) != "sha512":
		return "The sha512 of this entry is not 128 hex digits in lower case"
	case e.Size <= 0:
		return "The size of this entry is not a number of bytes"
	case e.Address == "":
		return "This entry has no address"
	case !slices.Contains(Ways(), e.Verified):
		return fmt.Sprintf("%q is not how an artifact is verified: %s", e.Verified, strings.Join(Ways(), ", "))
	case (e.Verified == Checksum) != (e.Checksum != ""):
		return "The entry is verified by a checksum file, or has the address of one, and not both"
	case (e.Verified == Signature) != (e.Signer != "" && e.Issuer != "" && e.Bundle != ""):
		return "The entry is verified by a signature, or has one (signer, issuer, bundle), and not both"
	}
	return ""
}

func fault(at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at}
}
