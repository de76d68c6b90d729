package kinds_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

const bundledImage = "registry.example/bundled:1"

// imageArchive is an OCI image layout with one image, which has nothing but its manifest.
func imageArchive(t *testing.T, name string) []byte {
	t.Helper()
	manifest := `{"schemaVersion":2}`
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(manifest)))
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range [][2]string{{"oci-layout", `{"imageLayoutVersion":"1.0.0"}`},
		{"index.json", fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"digest":"sha256:%s","size":%d,"annotations":`+
			`{"io.containerd.image.name":%q}}]}`, digest, len(manifest), name)}, {"blobs/sha256/" + digest, manifest}} {
		stepstest.Must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}))
		_, err := w.Write([]byte(f[1]))
		stepstest.Must(t, err)
	}
	stepstest.Must(t, w.Close())
	return out.Bytes()
}

// bundled is an image that comes with the plan.
func bundled(art stepstest.Memory) steps.Spec {
	return stepstest.Spec("image", "image", &kinds.Image{Address: `\\.\pipe\containerd-containerd`, Image: bundledImage,
		File: "image.tar", SHA256: stepstest.Hex256(art["image.tar"]), Program: `C:\c\ctr.exe`})
}

// imageScenarios are those of images that come with the plan.
func imageScenarios(t *testing.T, art stepstest.Memory) []scenario {
	art["image.tar"] = imageArchive(t, bundledImage)
	runtime := []steps.Spec{containerdArchive(art, "http://m/1.tgz"), containerdConfig("v1"),
		stepstest.Spec("service", "containerd", stepstest.Service("containerd", `C:\c\containerd.exe`))}
	has := func(t *testing.T, h host.Host) {
		have, err := h.Image(t.Context(), `\\.\pipe\containerd-containerd`, bundledImage)
		if err != nil || have == nil {
			t.Errorf("the image: %v, %v", have, err)
		}
	}
	return []scenario{
		{name: "image of a bundle", list: append(slices.Clone(runtime), bundled(art)), verify: has},
		{name: "image of a bundle later", before: runtime, list: append(slices.Clone(runtime), bundled(art)), verify: has},
	}
}

// TestImageImportFails: an import that ctr refuses, without ctr, and of other bytes is an error that says so, and
// nothing of the archive stays.
func TestImageImportFails(t *testing.T) {
	for name, c := range map[string]struct {
		broken map[string]string
		change func(*kinds.Image, stepstest.Memory)
		want   string
	}{
		"refused": {map[string]string{"ctr.exe": "exit 7"}, func(*kinds.Image, stepstest.Memory) {},
			`C:\c\ctr.exe ended with exit code 7`},
		"no ctr": {nil, func(i *kinds.Image, _ stepstest.Memory) { i.Program = `C:\c\none.exe` },
			`none.exe is not there`},
		"other bytes": {nil, func(_ *kinds.Image, m stepstest.Memory) { m["image.tar"][600] ^= 1 }, "image.tar"},
		"no image": {nil, func(i *kinds.Image, m stepstest.Memory) {
			m["image.tar"] = []byte("text")
			i.SHA256 = stepstest.Hex256(m["image.tar"])
		}, "ended with exit code 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, art := scenarios(t)
			h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), Broken: c.broken})
			stepstest.Must(t, err)
			image := &kinds.Image{Address: `\\.\pipe\containerd-containerd`, Image: bundledImage, File: "image.tar",
				SHA256: stepstest.Hex256(art["image.tar"]), Program: `C:\c\ctr.exe`}
			c.change(image, art)
			r := stepstest.Apply(t, h, art, []steps.Spec{containerdArchive(art, "http://m/1.tgz"), containerdConfig("v1"),
				stepstest.Spec("service", "containerd", stepstest.Service("containerd", `C:\c\containerd.exe`)),
				stepstest.Spec("image", "image", image)})
			if r.Failed != "image" || !strings.Contains(r.Err.Detail, c.want) {
				t.Errorf("step %q: %v, want %q", r.Failed, r.Err, c.want)
			}
			facts, err := h.Facts(t.Context())
			stepstest.Must(t, err)
			if fi, err := h.Stat(t.Context(), facts.DataDir+`\import`); err == nil {
				t.Errorf("the archive stays: %+v", fi)
			}
		})
	}
}
