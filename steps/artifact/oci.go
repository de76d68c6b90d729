package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"nodejoin/steps"
)

// OCIScheme begins the address of an artifact in a container registry: oci://HOST/REPOSITORY:TAG.
const OCIScheme = "oci://"

const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json" // OCI image-spec 1.1, media-types.md
	ociTimeout  = time.Minute                                  // of one question to a registry
	maxAnswer   = 4 << 20                                      // bytes; of a manifest (distribution-spec 1.1)
)

// stored is an artifact in a registry. It is fetched by its digest alone; without one, the manifest that the tag
// stands for gives it.
type stored struct {
	client     *http.Client
	show       string
	base       string // https://HOST/v2/REPOSITORY/
	tag        string
	secure     bool
	repository string
}

var ociAddress = regexp.MustCompile(`^oci://([^/@?#]+)/([a-z0-9._/-]+):([A-Za-z0-9_][A-Za-z0-9_.-]*)$`)

// longestTag is how long a tag may be (distribution-spec, "Pulling manifests").
const longestTag = 128

func newStored(client *http.Client, raw string) (*stored, error) {
	m := ociAddress.FindStringSubmatch(raw)
	if m == nil || len(m[3]) > longestTag {
		return nil, &steps.Error{Code: steps.CodeInvalid, Summary: "wrong artifact address",
			Detail: fmt.Sprintf("%q is not oci://HOST/REPOSITORY:TAG", steps.ShowURL(raw))}
	}
	scheme := "https"
	if loopback(m[1]) {
		scheme = "http"
	}
	return &stored{client, raw, scheme + "://" + m[1] + "/v2/" + m[2] + "/", m[3], scheme == "https", m[2]}, nil
}

// locate returns the address of the artifact's bytes.
func (s *stored) locate(ctx context.Context, sha256 string) (string, error) {
	if sha256 != "" {
		return s.base + "blobs/sha256:" + sha256, nil
	}
	at := s.base + "manifests/" + s.tag
	login, err := s.login(ctx, at)
	if err != nil {
		return "", err
	}
	text, err := s.get(ctx, at, http.Header{"Accept": {ociManifest}, "Authorization": login})
	if err != nil {
		return "", err
	}
	var m struct{ Layers []struct{ Digest string } }
	if err := json.Unmarshal(text, &m); err != nil || len(m.Layers) != 1 {
		return "", fmt.Errorf("%s is not an artifact of one file", s.show)
	}
	digest, ok := strings.CutPrefix(m.Layers[0].Digest, "sha256:")
	if !ok || steps.DigestAlgorithm(digest) != "sha256" {
		return "", fmt.Errorf("%s has no sha256 digest", s.show)
	}
	return s.base + "blobs/sha256:" + digest, nil
}

var challengeField = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// login returns what the header Authorization has in a request to an address, none where the registry wants none. A
// registry that wants a token gives it to the user of the plan, or to everybody who may read (distribution-spec,
// "token authentication").
func (s *stored) login(ctx context.Context, at string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ociTimeout, fmt.Errorf("no answer for %s", ociTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, at, nil)
	if err != nil {
		return nil, plain(err)
	}
	req.Header.Set("User-Agent", "nodejoin")
	req.Header.Set("Accept", ociManifest+", */*")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the registry for %s: %w", s.show, plain(err))
	}
	_ = resp.Body.Close() // a HEAD has none
	if resp.StatusCode != http.StatusUnauthorized {
		return nil, nil
	}
	challenge := resp.Header.Get("WWW-Authenticate")
	how, _, _ := strings.Cut(challenge, " ")
	own, err := own(ctx, at)
	if err != nil || own != nil && (strings.EqualFold(how, "Basic") || strings.HasPrefix(own[0], bearer)) {
		return own, err
	}
	fields := map[string]string{}
	for _, f := range challengeField.FindAllStringSubmatch(challenge, -1) {
		fields[f[1]] = f[2]
	}
	realm, err := url.Parse(fields["realm"])
	if !strings.EqualFold(how, "Bearer") || err != nil || realm.Host == "" || realm.User != nil ||
		realm.Scheme != "https" && (s.secure || realm.Scheme != "http") {
		return nil, fmt.Errorf("the registry of %s cannot be read%s", s.show, toLogIn(ctx, req.URL.Host))
	}
	q := realm.Query()
	q.Set("service", fields["service"])
	q.Set("scope", "repository:"+s.repository+":pull")
	realm.RawQuery = q.Encode()
	text, err := s.get(ctx, realm.String(), http.Header{"Authorization": own})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Token == "" && answer.Access == "" {
		return nil, errors.New("the registry gave no token to read " + s.show)
	}
	if answer.Token == "" {
		answer.Token = answer.Access
	}
	return []string{bearer + answer.Token}, nil
}

// get reads a small answer.
func (s *stored) get(ctx context.Context, at string, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ociTimeout, fmt.Errorf("no answer for %s", ociTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, plain(err)
	}
	for name, v := range header {
		if len(v) > 0 {
			req.Header[name] = v
		}
	}
	req.Header.Set("User-Agent", "nodejoin")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the registry for %s: %w", s.show, plain(err))
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		server, _, _ := strings.Cut(strings.TrimPrefix(s.show, OCIScheme), "/")
		return nil, fmt.Errorf("%s: the registry answered %s%s", s.show, resp.Status, toLogIn(ctx, server))
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the registry answered %s", s.show, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("%s: the registry's answer has more than %d bytes", s.show, maxAnswer)
	}
	return text, err
}
