package locker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan"
	"nodejoin/steps"
)

// maxSmall bounds a checksum file or a signature, in bytes. The longest known, of all files of a release, have some
// kilobytes.
const maxSmall = 1 << 20

// verify compares an artifact with the digest in its publisher's checksum file.
func (open opener) verify(ctx context.Context, a plan.Artifact, r reading) *hcl.Diagnostic {
	at := steps.ShowURL(a.Checksum)
	text, err := open.small(ctx, a.Checksum)
	if err == nil {
		var want string
		if want, err = digestIn(text, fileName(a)); err == nil {
			return differs(a, at, want, r)
		}
		err = fmt.Errorf("the checksum file %s %w", at, err)
	}
	return fault(a.Range, "an artifact cannot be verified", "%s for %s: %s. Check the version, and the proxy of this "+
		"machine (HTTPS_PROXY); or, if its publisher has no such file for it, give the artifact its sha256. The lock stays "+
		"as it is.", a.Name, a.Platform(), err)
}

// differs reports an artifact that is not what its publisher names.
func differs(a plan.Artifact, at, want string, r reading) *hcl.Diagnostic {
	algorithm, have := steps.DigestAlgorithm(want), r.sha256
	if algorithm == "sha512" {
		have = r.sha512
	}
	if want == have {
		return nil
	}
	return fault(a.Range, "wrong digest", "%s for %s: %s has the %s %s (%d bytes), and the checksum file %s names %s "+
		"for it. The file was cut, changed or tampered with, or the two are of different releases. Try again later, or ask "+
		"its publisher; the lock stays as it is.", a.Name, a.Platform(), a.Address, algorithm, have, r.size, at, want)
}

// small reads a checksum file or a signature.
func (open opener) small(ctx context.Context, url string) (text string, err error) {
	body, promised, err := open(ctx, steps.Source{URL: url})
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(body, maxSmall+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxSmall:
		return "", fmt.Errorf("%s: more than %d bytes, which no such file has", steps.ShowURL(url), maxSmall)
	case promised >= 0 && int64(len(b)) != promised:
		return "", fmt.Errorf("%s: %d bytes, and %d were promised", steps.ShowURL(url), len(b), promised)
	}
	return string(b), nil
}

// fileName is the name of an artifact's file at its origin.
func fileName(a plan.Artifact) string {
	if a.From.File != "" {
		return filepath.Base(a.From.File)
	}
	address, _, _ := strings.Cut(a.From.URL, "?")
	return path.Base(address)
}

// digestIn returns the digest of a file in the text of a checksum file, in lower case: the only line, which has
// nothing else; or that of the line with the file's name, as sha256sum writes it. Other lines, such as those of a
// signature around the list, say nothing.
func digestIn(text, name string) (digest string, err error) {
	if d := strings.ToLower(strings.TrimSpace(text)); steps.DigestAlgorithm(d) != "" {
		return d, nil
	}
	listed := 0
	for line := range strings.Lines(text) {
		d, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if d = strings.ToLower(d); steps.DigestAlgorithm(d) == "" {
			continue
		}
		listed++
		// Two characters stand between the two, of which the second is a space or an asterisk. The name may have a folder.
		of := path.Base(strings.ReplaceAll(strings.TrimLeft(rest, " *"), `\`, "/"))
		switch {
		case of != name:
		case digest != "" && digest != d:
			return "", fmt.Errorf("names two digests for %s, %s and %s", name, digest, d)
		default:
			digest = d
		}
	}
	switch {
	case digest != "":
		return digest, nil
	case listed == 0:
		return "", errors.New("has no digest in it")
	}
	return "", fmt.Errorf("names digests of other files, and none of %s", name)
}
