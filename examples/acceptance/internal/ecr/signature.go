package ecr

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signer is who signs requests, and for which service.
type signer struct{ accessKey, secretKey, region, service string }

const (
	algorithm = "AWS4-HMAC-SHA256"
	timeForm  = "20060102T150405Z"
	// maxSkew is how far the time of a request may be from AWS's.
	maxSkew = 5 * time.Minute
)

// verify is the error of a request that does not have the signer's signature (Signature Version 4 in the header
// Authorization); nil = it has.
func (s signer) verify(r *http.Request, body []byte, now time.Time) *Error {
	header := r.Header.Get("Authorization")
	if header == "" {
		return &Error{"MissingAuthenticationTokenException", "Missing Authentication Token"}
	}
	fields, ok := strings.CutPrefix(header, algorithm+" ")
	if !ok {
		return &Error{"IncompleteSignatureException", "not " + algorithm}
	}
	parts := map[string]string{}
	for field := range strings.SplitSeq(fields, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		parts[name] = value
	}
	signed := strings.Split(parts["SignedHeaders"], ";")
	if parts["Credential"] == "" || parts["SignedHeaders"] == "" || parts["Signature"] == "" ||
		!slices.IsSorted(signed) {
		return &Error{"IncompleteSignatureException", header}
	}
	stamp := r.Header.Get("X-Amz-Date")
	at, err := time.Parse(timeForm, stamp)
	if err != nil {
		return &Error{"IncompleteSignatureException", "X-Amz-Date: " + stamp}
	}
	if skew := now.Sub(at).Abs(); skew > maxSkew {
		return &Error{"InvalidSignatureException", "Signature expired or not yet current: " + skew.String()}
	}
	scope := strings.Join([]string{stamp[:8], s.region, s.service, "aws4_request"}, "/")
	key, have, _ := strings.Cut(parts["Credential"], "/")
	if key != s.accessKey {
		return &Error{"UnrecognizedClientException", "The security token included in the request is invalid."}
	}
	if have != scope {
		return &Error{"InvalidSignatureException", "Credential should be scoped to " + scope + ", not " + have}
	}
	for name := range r.Header {
		name = strings.ToLower(name)
		if (strings.HasPrefix(name, "x-amz-") || name == "content-type") && !slices.Contains(signed, name) {
			return &Error{"InvalidSignatureException", name + " must be signed"}
		}
	}
	if !slices.Contains(signed, "host") {
		return &Error{"InvalidSignatureException", "host must be signed"}
	}
	if want := s.signature(stamp, scope, canonical(r, signed, body)); !hmac.Equal([]byte(want),
		[]byte(parts["Signature"])) {
		return &Error{"InvalidSignatureException", "The request signature we calculated does not match the " +
			"signature you provided."}
	}
	return nil
}

// canonical is the request as it is signed.
func canonical(r *http.Request, signed []string, body []byte) string {
	var b strings.Builder
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	b.WriteString(r.Method + "\n" + path + "\n" + query(r.URL.Query()) + "\n")
	for _, name := range signed {
		values := slices.Clone(r.Header.Values(name))
		switch name {
		case "host":
			values = []string{r.Host}
		case "content-length": // which Go takes out of the headers
			values = []string{strconv.FormatInt(r.ContentLength, 10)}
		}
		for i, v := range values {
			values[i] = strings.Join(strings.Fields(v), " ")
		}
		b.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	sum := sha256.Sum256(body)
	b.WriteString("\n" + strings.Join(signed, ";") + "\n" + hex.EncodeToString(sum[:]))
	return b.String()
}

// query is a query with its names and values in order, escaped by RFC 3986.
func query(q url.Values) string {
	var all []string
	for name, values := range q {
		for _, v := range values {
			all = append(all, escape(name)+"="+escape(v))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "&")
}

func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func (s signer) signature(stamp, scope, request string) string {
	sum := sha256.Sum256([]byte(request))
	key := []byte("AWS4" + s.secretKey)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, strings.Join([]string{algorithm, stamp, scope, hex.EncodeToString(sum[:])}, "\n")))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
