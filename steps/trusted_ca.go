package steps

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var trustedCAKind = Kind{Name: "trusted_ca", Place: OnHost, Timeout: 3 * time.Minute, Doc: "a certificate authority that the machine trusts",
	Undo:  map[record.Prefix]Undo{record.TrustedCA: {New: undoTrustedCA}},
	New:   func() any { return &TrustedCA{} },
	Makes: makes((*TrustedCA).thing), Review: review((*TrustedCA).review)}

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
			return nil, fmt.Errorf("it holds what is no certificate: %w", err)
		}
		if !ca.BasicConstraintsValid || !ca.IsCA {
			return nil, fmt.Errorf("%s is not the certificate of an authority", ca.Subject)
		}
		out = append(out, ca)
	}
}

func (t *TrustedCA) thing(string) Thing {
	ca, err := t.parse()
	if err != nil {
		return Thing{}
	}
	return Thing{Key: caKey(ca)}
}

func (t *TrustedCA) review(Written) []Remark {
	if t.Certificate == "" || HasRef(t.Certificate) {
		return nil
	}
	list, err := Authorities(t.Certificate)
	switch {
	case err != nil:
		return []Remark{{Arg: "certificate", Summary: "invalid certificate", Detail: fmt.Sprintf("This cannot be an authority to trust: %v. Give the authority's certificate in PEM, for example file(\"ca.pem\").", err)}}
	case len(list) > 1:
		return []Remark{{Arg: "certificate", Summary: "several certificates", Detail: fmt.Sprintf("There are %d certificates in it, and a step is for one. Give each a step of its own, or name the text in the argument \"trusted_cas\" of a host block.", len(list))}}
	}
	return nil
}

func (c *TrustedCA) parse() (*x509.Certificate, error) {
	list, err := Authorities(c.Certificate)
	if err != nil {
		return nil, Invalid("trusted CA: %v", err)
	}
	if len(list) != 1 {
		return nil, Invalid("trusted CA: it holds %d certificates, not one", len(list))
	}
	return list[0], nil
}

func (c *TrustedCA) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	ca, err := c.parse()
	if err != nil {
		return Change{}, err
	}
	trusted, err := r.TrustedCA(ctx, ca.Raw)
	if err != nil || trusted {
		return Change{}, err
	}
	return Change{Action: ActionCreate, Diffs: []Diff{{Name: "authority", Want: ca.Subject.String()}, {Name: "sha256", Want: fingerprint(ca.Raw)}}}, nil
}

func (c *TrustedCA) Apply(ctx context.Context, h host.Host, e *Env, _ Change) (Outcome, error) {
	ca, err := c.parse()
	if err != nil {
		return Outcome{}, err
	}
	if err := e.Claim(ctx, h, record.New{Key: caKey(ca), Detail: c.Certificate}); err != nil {
		return Outcome{}, err
	}
	return Outcome{}, h.TrustCA(ctx, ca.Raw)
}

func caKey(ca *x509.Certificate) record.Key { return record.TrustedCA.Of(fingerprint(ca.Raw)) }

// fingerprint is the sha256 of a certificate, as browsers and openssl show it, but in
// lower case and without colons.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// undoTrustedCA takes an authority out of the machine's store, that nodejoin put there:
// one that was trusted before is never claimed, and where somebody else trusts it as well
// by now it stays trusted. Detail holds the certificate.
func undoTrustedCA(_ record.Key, claim record.Claim) (Undoing, error) {
	ca, err := (&TrustedCA{Certificate: claim.Detail}).parse()
	if err != nil {
		return Undoing{}, err
	}
	return Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			added, err := r.AddedCA(ctx, ca.Raw)
			if err != nil || !added {
				return Change{}, "", err
			}
			return Change{Action: ActionDelete, Reason: ca.Subject.String()}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *Env) error { return h.DistrustCA(ctx, ca.Raw) },
	}, nil
}
