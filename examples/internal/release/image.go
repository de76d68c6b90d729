package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The image has no base: the static program, its user, and the certificate authorities that downloads are checked
// against. Those are Mozilla's, in the version of go.sum: so the image is the same wherever it is made.
const (
	imageUser = 65532 // it has no rights on a machine, and no name on usual ones
	imageHome = "/home/nodejoin"
	imagePlan = "/plan" // working folder: plans are mounted there
)

// imageFiles are the files of the image, folders first.
func imageFiles(program []byte) []file {
	return []file{
		{name: "etc/", mode: fs.ModeDir | 0o755},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nnodejoin:x:%d:\n", imageUser)},
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/nologin\n"+
			"nodejoin:x:%[1]d:%[1]d:nodejoin:%[2]s:/nologin\n", imageUser, imageHome)},
		{name: "etc/ssl/", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs/", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: authorities()},
		{name: "home/", mode: fs.ModeDir | 0o755},
		{name: imageHome[1:] + "/", mode: fs.ModeDir | 0o700, owner: imageUser},
		{name: imagePlan[1:] + "/", mode: fs.ModeDir | 0o755, owner: imageUser},
		{name: "tmp/", mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{name: "nodejoin", mode: 0o755, data: program},
	}
}

// authorities is the file of certificate authorities. Those with a constraint are left out, as the file cannot say it.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return b.Bytes()
}

// imageLayer is a layer, compressed.
type imageLayer struct{ data []byte }

func (l imageLayer) Digest() (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader(l.data))
	return h, err
}
func (l imageLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.data)), nil
}
func (l imageLayer) Size() (int64, error)                { return int64(len(l.data)), nil }
func (l imageLayer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// image is the container image of a platform.
func image(program []byte, goos, arch, version string, at time.Time) (v1.Image, error) {
	data, err := tarred(imageFiles(program), at)
	if err != nil {
		return nil, err
	}
	layer, err := partial.CompressedToLayer(imageLayer{data})
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON),
		types.OCIManifestSchema1), mutate.Addendum{Layer: layer,
		History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "examples/internal/release"}})
	if err != nil {
		return nil, err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = goos, arch, v1.Time{Time: at}
	c.Config = v1.Config{Entrypoint: []string{"/nodejoin"}, WorkingDir: imagePlan,
		User: fmt.Sprintf("%[1]d:%[1]d", imageUser), Env: []string{"HOME=" + imageHome, "USER=nodejoin", "PATH=/"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "nodejoin",
			"org.opencontainers.image.description": "Joins Windows and Linux hosts to Kubernetes by a plan",
			"org.opencontainers.image.version":     version,
			"org.opencontainers.image.created":     at.Format(time.RFC3339),
		}}
	return mutate.ConfigFile(img, c)
}

// imageArchive is an OCI layout with an index of all platforms, in a tar file. Its folder is removed.
func imageArchive(images map[string]v1.Image, at time.Time) (_ []byte, err error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range sorted(images) {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: images[p],
			Descriptor: v1.Descriptor{Platform: platform}})
	}
	dir, err := os.MkdirTemp("", "nodejoin-image-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, err
	}
	if err := l.AppendIndex(index); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	files := os.DirFS(dir)
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || path == "." {
			return err
		}
		f := file{name: path, mode: 0o644}
		if d.IsDir() {
			f.name, f.mode = f.name+"/", fs.ModeDir|0o755
		} else if f.data, err = fs.ReadFile(files, path); err != nil {
			return err
		}
		return f.tar(t, at)
	})
	err = errJoin(func() error { return err }, t.Close) // it writes the end
	return out.Bytes(), err
}
