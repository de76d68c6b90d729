package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	inToto = "application/vnd.in-toto+json"
	// provenance begins the type of a statement that its signer built the subjects: v1 and v0.2 (slsa.dev/provenance).
	// Statements of other types say something else about the subjects, for example that they have a fault.
	provenance = "https://slsa.dev/provenance/"
)

// encoded are the bytes that are signed (dsse, protocol.md, PAE).
func (e *envelope) encoded() []byte {
	return append(fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(e.Type), e.Type, len(e.Payload)), e.Payload...)
}

// built checks that the envelope says that its signer built a file of this digest (in-toto/attestation,
// statement.md).
func (e *envelope) built(digest []byte) error {
	var s struct {
		Type      string `json:"_type"`
		Predicate string `json:"predicateType"`
		Subject   []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	switch err := json.Unmarshal(e.Payload, &s); {
	case e.Type != inToto || err != nil || !strings.HasPrefix(s.Type, "https://in-toto.io/Statement/"):
		return fmt.Errorf("the attestation is of the form %q, and not a statement of in-toto", e.Type)
	case !strings.HasPrefix(s.Predicate, provenance):
		return fmt.Errorf("the attestation is about %q, and not about who built the file", s.Predicate)
	}
	for _, subject := range s.Subject {
		if subject.Digest["sha256"] == hex.EncodeToString(digest) {
			return nil
		}
	}
	return errors.New("the attestation is over other bytes: none of its files has this sha256")
}

// logged are the fields of a log's entry of an envelope: dsse 0.0.1, or intoto 0.0.2 (sigstore/rekor, pkg/types).
type loggedEnvelope struct {
	payload    struct{ Algorithm, Value string }
	signatures [][]byte
	certs      [][]byte // PEM, one for each signature
}

func (e entry) envelope() (out loggedEnvelope, err error) {
	var body struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
		Spec    struct {
			Payload    struct{ Algorithm, Value string } `json:"payloadHash"`
			Signatures []struct {
				Signature []byte `json:"signature"`
				Verifier  []byte `json:"verifier"`
			} `json:"signatures"`
			Content struct {
				Payload  struct{ Algorithm, Value string } `json:"payloadHash"`
				Envelope struct {
					Signatures []struct {
						Signature []byte `json:"sig"` // of the text that the envelope has: base64 twice
						Key       []byte `json:"publicKey"`
					} `json:"signatures"`
				} `json:"envelope"`
			} `json:"content"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return out, fmt.Errorf("its entry in the log cannot be read: %w", err)
	}
	switch form := body.Kind + " " + body.Version; form {
	case "dsse 0.0.1":
		out.payload = body.Spec.Payload
		for _, s := range body.Spec.Signatures {
			out.signatures, out.certs = append(out.signatures, s.Signature), append(out.certs, s.Verifier)
		}
	case "intoto 0.0.2":
		out.payload = body.Spec.Content.Payload
		for _, s := range body.Spec.Content.Envelope.Signatures {
			raw, err := base64.StdEncoding.DecodeString(string(s.Signature))
			if err != nil {
				return out, fmt.Errorf("its entry in the log cannot be read: %w", err)
			}
			out.signatures, out.certs = append(out.signatures, raw), append(out.certs, s.Key)
		}
	default:
		return out, fmt.Errorf("its entry in the log is a %s, and neither a dsse 0.0.1 nor an intoto 0.0.2", form)
	}
	return out, nil
}

// aboutEnvelope checks that an entry is of an envelope that a certificate's key has signed.
func (e entry) aboutEnvelope(env *envelope, cert []byte) error {
	l, err := e.envelope()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(env.Payload)
	switch {
	case l.payload.Algorithm != "sha256" || l.payload.Value != hex.EncodeToString(sum[:]):
		return errors.New("its entry in the log is about other bytes")
	case len(l.signatures) != 1 || !bytes.Equal(l.signatures[0], env.Signatures[0].Signature):
		return errors.New("its entry in the log is about another signature")
	case !pemIs(l.certs[0], cert):
		return errors.New("its entry in the log is about another certificate")
	}
	return nil
}

// Pick returns the bundle about a digest from a file with several, one on each line, as GitHub's attestations are
// (.jsonl). A file with one bundle, or with something else, is returned unchanged.
func Pick(text []byte, digest string) []byte {
	want, err := hex.DecodeString(digest)
	if err != nil || len(text) > maxBundles {
		return text
	}
	var all []json.RawMessage
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var one json.RawMessage
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return text
		}
		all = append(all, one)
	}
	at := slices.IndexFunc(all, func(one json.RawMessage) bool {
		b, err := parse(one)
		return err == nil && b.Envelope != nil && b.Envelope.built(want) == nil
	})
	if at < 0 {
		return text
	}
	return all[at]
}

// maxBundles bounds a file of bundles, in bytes.
const maxBundles = 1 << 20
