package plan

import (
	"encoding/base64"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/lock"
	"nodejoin/plan/signature"
)

// trustRoot is whom the plan trusts for signatures: the root that its verify block gives, or Sigstore's public one.
func (c *compiler) trustRoot() *signature.Root {
	if c.root == nil {
		if c.Verify != nil && c.Verify.Root != nil {
			c.root = c.Verify.Root
		} else {
			c.root = signature.Public()
		}
	}
	return c.root
}

// signedBy is how an artifact's publisher signs it, as its block says or as is known of upstream; nil = not.
func signedBy(a *block.Artifact, of Artifact) *Signed {
	if s := a.Signature; s != nil {
		return &Signed{Bundle: s.Bundle, Own: true, Who: signature.Identity{Subject: s.Identity, Issuer: s.Issuer}}
	}
	if of.Upstream == "" {
		return nil
	}
	s, ok := compat.Signed(of.Name, of.Version, of.OS, of.Arch)
	if !ok {
		return nil
	}
	return &Signed{Bundle: s.Bundle, Signature: s.Signature, Certificate: s.Certificate,
		Who: signature.Identity{Subject: s.Subject, Issuer: s.Issuer}}
}

// judgeSignature verifies the signature that the lock has of an artifact, without a network. Who must have signed is
// never what the lock says.
func (c *compiler) judgeSignature(w wanted) {
	if w.entry.Verified != lock.Signature {
		return
	}
	var err error
	signed := signedBy(w.block, w.Artifact)
	bundle, wrong := base64.StdEncoding.DecodeString(w.entry.Bundle)
	switch {
	case signed == nil:
		err = fmt.Errorf("no signer of %s is known, and the plan names none", w.Name)
	case wrong != nil:
		err = fmt.Errorf("the bundle is not in base64")
	case w.entry.Signer != signed.Who.Subject || w.entry.Issuer != signed.Who.Issuer:
		err = fmt.Errorf("the lock names %q (%q) as its signer, and its publisher is %q (%q)", w.entry.Signer,
			w.entry.Issuer, signed.Who.Subject, signed.Who.Issuer)
	default:
		err = c.trustRoot().Verify(bundle, w.entry.SHA256, signed.Who)
	}
	if err != nil {
		c.Extend(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "wrong signature", Subject: &w.entry.Range,
			Detail: fmt.Sprintf("The lock says that the publisher of %s for %s signed it, and that is not so: %s. "+
				"Restore the lock from version control, or run '%s'.", w.Name, w.Platform(), err, c.lockCommand(""))}})
	}
}
