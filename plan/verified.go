package plan

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/lock"
)

// Unverified reports the artifacts that a lock of the plan shows less verified than the plan demands.
func (c *Compiled) Unverified(f *lock.File) hcl.Diagnostics {
	return unverified(c.verify, c.Artifacts, f)
}

// unverified reports, as one, the artifacts that are verified in a weaker way than the plan demands.
func unverified(v *block.Verify, list []Artifact, f *lock.File) hcl.Diagnostics {
	var names []string
	for _, a := range list {
		way := lock.None
		switch e := f.Lookup(a.Name, a.Platform()); {
		case e != nil:
			way = e.Verified
		case a.Source.SHA256 != "" || a.Source.SHA512 != "":
			way = lock.Digest
		}
		if want := v.Least(a.Name); !lock.AtLeast(way, want) {
			names = append(names, fmt.Sprintf("%s for %s (%s, wanted is %s)", a.Name, a.Platform(), way, want))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "artifact not verified", Subject: &v.Range,
		Detail: fmt.Sprintf("The plan demands more than is known of %s. Take them from where they can be verified, or "+
			"give a checksum file (checksum) or a digest (sha256) in their artifact blocks, and run 'nodejoin lock'; "+
			"or say in the argument artifacts of this block what counts for them.", strings.Join(names, ", "))}}
}
