package sandbox

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// importImages plays `ctr --address A --namespace k8s.io images import FILE`, for an OCI image layout in a tar archive
// (image-spec, image-layout.md). Images without a name, and in another namespace, are not the CRI's.
func (h *Host) importImages(s *state, args []string) error {
	if len(args) != 7 || args[0] != "--address" || args[2] != "--namespace" || args[4]+" "+args[5] != "images import" {
		return exit("ctr: the sandbox does not know %q", strings.Join(args, " "))
	}
	if h.serverOf(s, args[1]) != containerd {
		return exit("ctr: failed to dial %q: no containerd serves there", args[1])
	}
	at, err := h.real(args[6])
	if err != nil {
		return err
	}
	f, err := os.Open(at)
	if err != nil {
		return exit("ctr: %v", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	names, err := imagesOf(f)
	if err != nil {
		return exit("ctr: %v", err)
	}
	if args[3] != "k8s.io" {
		return nil
	}
	for _, name := range names {
		s.Pulled = append(s.Pulled, host.Image{ID: "sha256:" + name, Tags: []string{name}, Size: 1})
	}
	return nil
}

// imagesOf are the names of the images in an archive, of which all blobs must be there.
func imagesOf(r io.Reader) (names []string, err error) {
	type descriptor struct {
		Digest      string
		Annotations map[string]string
	}
	var index struct{ Manifests []descriptor }
	var blobs []string
	layout := false
	for t := tar.NewReader(r); ; {
		head, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch head.Name {
		case "oci-layout":
			layout = true
		case "index.json":
			if err := json.NewDecoder(t).Decode(&index); err != nil {
				return nil, err
			}
		default:
			sum := sha256.New()
			if _, err := io.CopyN(sum, t, head.Size); err != nil {
				return nil, err
			}
			blobs = append(blobs, "sha256:"+hex.EncodeToString(sum.Sum(nil)))
		}
	}
	if !layout {
		return nil, errors.New("unrecognized image format")
	}
	for _, m := range index.Manifests {
		if !slices.Contains(blobs, m.Digest) {
			return nil, errors.New("content digest " + m.Digest + ": not found")
		}
		if name := m.Annotations["io.containerd.image.name"]; name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}
