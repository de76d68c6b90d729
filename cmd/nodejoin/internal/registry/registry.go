// Package registry reads and writes container registries: which images names stand for, and artifacts as OCI
// artifacts. What it reads is trusted by its digest alone.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"nodejoin/plan"
	"nodejoin/plan/lock"
)

// Client asks registries, with the credentials that 'docker login' has left on this machine.
type Client struct{ Transport http.RoundTripper }

func (c *Client) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(c.Transport),
		remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("nodejoin")}
}

// portable is the Windows build whose containers run on all later ones (Microsoft Learn, "Windows container version
// compatibility": Windows Server 2022 and later).
const portable = 20348

// Images returns what an image is for its platform, as the lock has it. For Windows without a build these are the
// images of all builds.
func (c *Client) Images(ctx context.Context, of plan.Image) ([]lock.Image, error) {
	ref, err := name.ParseReference(of.Name)
	if err != nil {
		return nil, fmt.Errorf("%q is not the name of an image: %w", of.Name, err)
	}
	d, err := remote.Get(ref, c.options(ctx)...)
	if err != nil {
		return nil, explain(ref, err)
	}
	if !d.MediaType.IsIndex() {
		image, err := d.Image()
		if err != nil {
			return nil, explain(ref, err)
		}
		return single(of, image)
	}
	index, err := d.ImageIndex()
	if err != nil {
		return nil, explain(ref, err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		return nil, explain(ref, err)
	}
	chosen := choose(list.Manifests, of)
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%s has no image for %s; it has %s", of.Name, of.Platform(), platforms(list.Manifests))
	}
	var out []lock.Image
	for _, m := range chosen {
		image, err := index.Image(m.Digest)
		if err != nil {
			return nil, explain(ref, err)
		}
		size, err := sizeOf(image)
		if err != nil {
			return nil, explain(ref, err)
		}
		i := of
		if i.OS == "windows" && i.Build == "" {
			i.Build = short(m.Platform.OSVersion)
		}
		out = append(out, lock.Image{Name: of.Name, Platform: i.Platform(), Index: d.Digest.String(),
			Digest: m.Digest.String(), Size: size})
	}
	return out, nil
}

// single is an image that is for one platform only, which its configuration names.
func single(of plan.Image, image v1.Image) ([]lock.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	here := v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture,
		OSVersion: config.OSVersion}}
	if len(choose([]v1.Descriptor{here}, of)) == 0 {
		return nil, fmt.Errorf("%s has no image for %s; it has %s", of.Name, of.Platform(),
			platforms([]v1.Descriptor{here}))
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(image)
	if of.OS == "windows" && of.Build == "" {
		of.Build = short(config.OSVersion)
	}
	return []lock.Image{{Name: of.Name, Platform: of.Platform(), Digest: digest.String(), Size: size}}, err
}

// choose returns those of a list that are for an image's platform: on Windows that of the build, or else the newest
// whose containers run on it.
func choose(list []v1.Descriptor, of plan.Image) (out []v1.Descriptor) {
	for _, m := range list {
		if m.Platform == nil || m.Platform.OS != of.OS || m.Platform.Architecture != of.Arch ||
			of.Arch == "arm" && m.Platform.Variant != "" && m.Platform.Variant != "v7" {
			continue
		}
		same := func(o v1.Descriptor) bool { return short(o.Platform.OSVersion) == short(m.Platform.OSVersion) }
		if !slices.ContainsFunc(out, same) { // the first, as container runtimes do
			out = append(out, m)
		}
	}
	if of.OS != "windows" || of.Build == "" {
		return out
	}
	have := number(of.Build)
	out = slices.DeleteFunc(out, func(m v1.Descriptor) bool {
		n := number(m.Platform.OSVersion)
		return n != have && (n > have || n < portable)
	})
	slices.SortFunc(out, func(a, b v1.Descriptor) int {
		return number(b.Platform.OSVersion) - number(a.Platform.OSVersion)
	})
	return out[:min(len(out), 1)]
}

// short is a version of Windows without its revision: 10.0.20348.
func short(version string) string {
	parts := strings.SplitN(version, ".", 4)
	return strings.Join(parts[:min(len(parts), 3)], ".")
}

// number is the build in a version of Windows; 0 = there is none.
func number(version string) int {
	parts := strings.SplitN(version, ".", 4)
	if len(parts) < 3 {
		return 0
	}
	n, _ := strconv.Atoi(parts[2]) // 0 is right for what is not a number
	return n
}

// platforms names the platforms of a list.
func platforms(list []v1.Descriptor) string {
	var out []string
	for _, m := range list {
		if p := m.Platform; p != nil && p.OS != "unknown" && p.OS != "" { // others are attestations
			i := plan.Image{OS: p.OS, Arch: p.Architecture, Build: short(p.OSVersion)}
			out = append(out, i.Platform())
		}
	}
	if len(out) == 0 {
		return "none at all"
	}
	return strings.Join(out, ", ")
}

// sizeOf is how many bytes an image has as it is transferred.
func sizeOf(image v1.Image) (int64, error) {
	m, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	size, err := image.Size()
	size += m.Config.Size
	for _, l := range m.Layers {
		size += l.Size
	}
	return size, err
}

// AnswerError is an answer of a registry that is not what was asked for.
type AnswerError struct {
	Text string
	Err  error
}

func (e *AnswerError) Error() string { return e.Text }
func (e *AnswerError) Unwrap() error { return e.Err }

// explain says what a registry's answer means.
func explain(ref name.Reference, err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return err
	}
	at := ref.Context().RegistryStr()
	text := fmt.Sprintf("the registry %s: %v", at, err)
	switch answer.StatusCode {
	case http.StatusNotFound:
		text = fmt.Sprintf("the registry %s has no image %s", at, ref.Name())
	case http.StatusUnauthorized, http.StatusForbidden:
		text = fmt.Sprintf("the registry %s does not let this user have %s; log in with 'docker login %s'", at,
			ref.Name(), at)
	}
	return &AnswerError{text, err}
}
