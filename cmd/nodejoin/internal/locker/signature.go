package locker

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/plan/signature"
)

// signer reads and verifies signatures.
type signer struct {
	open opener
	post func(context.Context, string, []byte, int64) ([]byte, error)
}

// sign verifies the signature of an artifact's publisher over its digest, and puts it into its entry. A good one that
// is locked already stays: the log signs each answer again, and a lock that is made again is to be the same.
func (s *signer) sign(ctx context.Context, a plan.Artifact, e *lock.Entry, before *lock.Entry, root *signature.Root,
) *hcl.Diagnostic {
	var bundle []byte
	if before != nil && before.Verified == lock.Signature {
		bundle, _ = base64.StdEncoding.DecodeString(before.Bundle) // a wrong one does not verify
	}
	if root.Verify(bundle, e.SHA256, a.Signed.Who) != nil {
		var err error
		if bundle, err = s.bundle(ctx, a.Signed, e.SHA256, root); err == nil {
			err = root.Verify(bundle, e.SHA256, a.Signed.Who)
		}
		if err == nil {
			bundle, err = signature.Compact(bundle)
		}
		if err != nil {
			return fault(a.Range, "an artifact cannot be verified", "%s for %s: %s has the sha256 %s (%d bytes), and "+
				"its publisher's signature is not known to be over it: %s. Try again later, or ask its publisher. If "+
				"less is enough, say so: verify { artifacts = { %s = \"checksum\" } }. The lock stays as it is.",
				a.Name, a.Platform(), a.Address, e.SHA256, e.Size, err, a.Name)
		}
	}
	e.Verified, e.Signer, e.Issuer = lock.Signature, a.Signed.Who.Subject, a.Signed.Who.Issuer
	e.Bundle, e.Checksum = base64.StdEncoding.EncodeToString(bundle), ""
	return nil
}

// bundle reads a signature: its bundle, or its parts and what the log says of them.
func (s *signer) bundle(ctx context.Context, of *plan.Signed, digest string, root *signature.Root) ([]byte, error) {
	if of.Bundle != "" {
		text, err := s.open.small(ctx, of.Bundle)
		return signature.Pick([]byte(text), digest), err
	}
	sig, err := s.open.small(ctx, of.Signature)
	if err != nil {
		return nil, err
	}
	cert, err := s.open.small(ctx, of.Certificate)
	if err != nil {
		return nil, err
	}
	parts, err := signature.ReadParts(digest, sig, cert)
	if err != nil {
		return nil, err
	}
	answer, err := s.post(ctx, strings.TrimRight(root.Log(), "/")+"/api/v1/log/entries/retrieve", parts.Query(),
		maxSmall)
	if err != nil {
		return nil, err
	}
	return parts.Bundle(answer)
}
