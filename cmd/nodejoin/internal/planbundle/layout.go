// Package planbundle packs a plan with all that it installs into one file, and opens such files. The file is an OCI
// image layout in a tar archive (image-spec, image-layout.md): a manifest with the plan's files, artifacts, agents and
// nodejoin as its layers, and the images. The same inputs give the same bytes.
package planbundle

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"nodejoin/steps/agentbin"
)

// artifactType is that of the manifest that describes a bundle.
const artifactType = "application/vnd.nodejoin.bundle.v1"

// Roles of the layers, as their media types.
const (
	planFile = "application/vnd.nodejoin.plan.file.v1"
	artifact = "application/vnd.nodejoin.artifact.v1"
	agent    = "application/vnd.nodejoin.agent.v1"
	packed   = "application/vnd.nodejoin.agent.packed.v1" // see packedAs
	program  = "application/vnd.nodejoin.program.v1"
	billFile = "application/spdx+json"
	module   = "application/vnd.nodejoin.module.v1"
	describe = "application/vnd.nodejoin.bundle.config.v1+json"
)

// Annotations of the layers.
const (
	title      = "org.opencontainers.image.title" // the name of the file
	executable = "dev.nodejoin.executable"        // "true" for a program of the plan
	sha512Key  = "dev.nodejoin.sha512"            // digest by which the plan names an artifact
)

// Names in the archive.
const (
	layoutFile = "oci-layout"
	indexFile  = "index.json"
	blobFolder = "blobs/sha256/"
	layoutText = `{"imageLayoutVersion":"1.0.0"}`
)

// Config describes a bundle.
type Config struct {
	Version     string `json:"nodejoin"`              // of the nodejoin that made it and that it has
	Platform    string `json:"platform"`              // that nodejoin is for
	Plan        string `json:"plan"`                  // folder or file of the plan, among its files
	Environment string `json:"environment,omitempty"` // that the plan is for
}

// manifest describes a bundle in its archive.
type manifest struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	ArtifactType  string          `json:"artifactType"`
	Config        v1.Descriptor   `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
}

// index is what an archive has. Its first manifest is that of the bundle; the others are images.
type index struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	Manifests     []descriptor    `json:"manifests"`
}

// descriptor is an entry of an index.
type descriptor struct {
	MediaType    types.MediaType   `json:"mediaType"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Size         int64             `json:"size"`
	Digest       v1.Hash           `json:"digest"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

// head is the header of a file in the archive. It has no time, so that the same files give the same archive.
func head(name string, size int64) ([]byte, error) {
	var out bytes.Buffer
	err := tar.NewWriter(&out).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644})
	return out.Bytes(), err
}

// padding fills up a file in the archive to whole blocks.
func padding(size int64) []byte { return make([]byte, (512-size%512)%512) }

// archiveEnd ends an archive.
func archiveEnd() []byte { return make([]byte, 1024) }

// blobName is the name of a blob in the archive.
func blobName(sha256 string) string { return blobFolder + sha256 }

// packedAs is the type of an agent in a form of agentbin.
func packedAs(form string) string {
	if form == agentbin.Zstd {
		return packed + "+zstd"
	}
	return packed
}

// local reports whether a name stays in the folder that it is unpacked into.
func local(name string) bool {
	return name != "" && path.Clean(name) == name && !path.IsAbs(name) && name != ".." &&
		!strings.HasPrefix(name, "../") && !strings.ContainsAny(name, `\:`)
}

// encode is JSON with one form for the same value.
func encode(v any) ([]byte, error) { return json.Marshal(v) }
