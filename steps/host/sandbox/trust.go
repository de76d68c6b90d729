package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"nodejoin/steps/host"
)

// TrustedCA reports whether the machine trusts an authority: it was added, or it is one of the quirks.
func (h *Host) TrustedCA(ctx context.Context, ca []byte) (bool, error) {
	q, err := h.ask(ctx, "TrustedCA", "trusted authorities")
	if err != nil {
		return false, err
	}
	name, _ := caName(ca)
	added, err := h.AddedCA(ctx, ca)
	return err == nil && (added || slices.Contains(q.Authorities, name)), err
}

// AddedCA reports whether an authority was added.
func (h *Host) AddedCA(ctx context.Context, ca []byte) (added bool, err error) {
	name, bad := caName(ca)
	err = h.view(ctx, "look for authority", name, func(s *state) error {
		added = slices.Contains(s.Trusted, name)
		return bad
	})
	return added && err == nil, err
}

// TrustCA makes the machine trust an authority.
func (h *Host) TrustCA(ctx context.Context, ca []byte) error {
	return h.trust(ctx, "trust authority", ca, true)
}

// DistrustCA removes an authority from those that the machine trusts.
func (h *Host) DistrustCA(ctx context.Context, ca []byte) error {
	return h.trust(ctx, "distrust authority", ca, false)
}

func (h *Host) trust(ctx context.Context, op string, ca []byte, trusted bool) error {
	name, bad := caName(ca)
	return failed(op, name, h.change(ctx, func(s *state) error {
		if bad != nil {
			return bad
		}
		s.Trusted = slices.DeleteFunc(s.Trusted, func(n string) bool { return n == name })
		if trusted {
			s.Trusted = append(s.Trusted, name)
		}
		return nil
	}))
}

// caName returns the name of an authority: the sha256 of its certificate.
func caName(ca []byte) (string, error) {
	sum := sha256.Sum256(ca)
	return hex.EncodeToString(sum[:]), host.CheckCertificate(ca)
}
