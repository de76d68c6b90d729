package kinds

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// trustedCAPrefix is that of the claims.
const trustedCAPrefix record.Prefix = "trusted_ca"

var trustedCAKind = steps.Kind{Name: "trusted_ca", Place: steps.OnHost, Image: true, Timeout: 3 * time.Minute,
	Doc:   "a certificate authority that the machine trusts",
	Undo:  map[record.Prefix]steps.Undo{trustedCAPrefix: {Called: "trusted authority", New: undoTrustedCA}},
	New:   func() any { return &TrustedCA{} },
	Makes: steps.Makes((*TrustedCA).thing), Review: steps.Review((*TrustedCA).review)}

// TrustedCA is a certificate authority in the machine's own store: that of Windows
// (LocalMachine\Root), or what the distribution's programs read.
type TrustedCA struct {
	Certificate string `json:"certificate" doc:"one certificate in PEM"`
}

// Authorities reads the certificates of authorities out of a PEM text, at least one;
// nothing else may be in it.
func Authorities(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(out) == 0 || len(strings.TrimSpace(string(rest))) > 0 {
				return nil, fmt.Errorf("it is not a certificate in PEM")
			}
			return out, nil
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %s, not certificates alone", strings.ToLower(block.Type))
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("it holds something that is not a certificate: %w", err)
		}
		if !ca.BasicConstraintsValid || !ca.IsCA {
			return nil, fmt.Errorf("%s is not the certificate of an authority", ca.Subject)
		}
		out = append(out, ca)
	}
}

func (t *TrustedCA) thing(string) steps.Thing {
	ca, err := t.parse()
	if err != nil {
		return steps.Thing{}
	}
	return steps.Thing{Key: caKey(ca)}
}

func (t *TrustedCA) review(steps.Written) []steps.Remark {
	if t.Certificate == "" || steps.HasRef(t.Certificate) {
		return nil
	}
	list, err := Authorities(t.Certificate)
	switch {
	case err != nil:
		return []steps.Remark{{Arg: "certificate", Summary: "invalid certificate",
			Detail: fmt.Sprintf("This cannot be an authority to trust: %v. Give the authority's certificate in PEM, for "+
				"example file(\"ca.pem\").", err)}}
	case len(list) > 1:
		return []steps.Remark{{Arg: "certificate", Summary: "several certificates",
			Detail: fmt.Sprintf("There are %d certificates in it, and a step is for one. Give each a step of its own, or "+
				"name the text in the argument \"trusted_cas\" of a host block.", len(list))}}
	}
	return nil
}

func (t *TrustedCA) parse() (*x509.Certificate, error) {
	list, err := Authorities(t.Certificate)
	if err != nil {
		return nil, steps.Invalid("trusted CA: %v", err)
	}
	if len(list) != 1 {
		return nil, steps.Invalid("trusted CA: it holds %d certificates, not one", len(list))
	}
	return list[0], nil
}

func (t *TrustedCA) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	ca, err := t.parse()
	if err != nil {
		return steps.Change{}, err
	}
	trusted, err := r.TrustedCA(ctx, ca.Raw)
	if err != nil || trusted {
		return steps.Change{}, err
	}
	return steps.Change{Action: steps.ActionCreate,
		Diffs: []steps.Diff{{Name: "authority", Want: ca.Subject.String()}, {Name: "sha256",
			Want: fingerprint(ca.Raw)}}}, nil
}

func (t *TrustedCA) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	ca, err := t.parse()
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := e.Claim(ctx, h, record.New{Key: caKey(ca), Detail: t.Certificate}); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, h.TrustCA(ctx, ca.Raw)
}

func caKey(ca *x509.Certificate) record.Key { return trustedCAPrefix.Of(fingerprint(ca.Raw)) }

// fingerprint is the sha256 of a certificate, as browsers and openssl show it, but in
// lower case and without colons.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// undoTrustedCA takes an authority out of the machine's store, that nodejoin put there:
// one that was trusted before is never claimed, and where somebody else trusts it as well
// by now it stays trusted. Detail holds the certificate.
func undoTrustedCA(_ record.Key, claim record.Claim) (steps.Undoing, error) {
	ca, err := (&TrustedCA{Certificate: claim.Detail}).parse()
	if err != nil {
		return steps.Undoing{}, err
	}
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			added, err := r.AddedCA(ctx, ca.Raw)
			if err != nil || !added {
				return steps.Change{}, "", err
			}
			return steps.Change{Action: steps.ActionDelete, Reason: ca.Subject.String()}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error { return h.DistrustCA(ctx, ca.Raw) },
	}, nil
}
