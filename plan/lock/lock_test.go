package lock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"nodejoin/plan/lock"
)

// TestRoundTrip: a lock reads back as it was written, whatever its texts contain. The file does not depend on the
// order of the entries.
func TestRoundTrip(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 128)
	entries := []lock.Entry{
		{Name: "containerd", Platform: "linux/arm64", Version: "2.2.1", Address: "https://example.com/${x}/%{y}\"\\",
			Size: 1, SHA256: a, SHA512: b, Verified: lock.Digest},
		{Name: "containerd", Platform: "linux/amd64", Address: "file:programs/conténerd\n", Size: 1 << 40, SHA256: a,
			Verified: lock.None},
		{Name: "cni_plugins", Platform: "windows/amd64", Address: "mirror:x", Size: 3, SHA256: a, Verified: lock.Checksum,
			Checksum: "https://example.com/x.sha256"},
	}
	images := []lock.Image{
		{Name: "registry.k8s.io/pause:3.10.2", Platform: "windows(10.0.20348)/amd64", Index: "sha256:" + a,
			Digest: "sha256:" + a, Size: 1 << 33},
		{Name: "registry.k8s.io/pause:3.10.2", Platform: "linux/amd64", Digest: "sha256:" + a, Size: 2},
	}
	text := (&lock.File{Entries: entries, Images: images}).Format()
	f, diags := hclsyntax.ParseConfig(text, "x", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags, string(text))
	}
	have, diags := lock.Decode(f.Body)
	if diags.HasErrors() {
		t.Fatal(diags, string(text))
	}
	slices.Reverse(entries)
	(&lock.File{Entries: entries}).Sort()
	if d := cmp.Diff(entries, have.Entries, cmpopts.IgnoreFields(lock.Entry{}, "Range")); d != "" {
		t.Error(d)
	}
	slices.Reverse(images)
	if d := cmp.Diff(images, have.Images, cmpopts.IgnoreFields(lock.Image{}, "Range")); d != "" {
		t.Error(d)
	}
	if again := have.Format(); string(again) != string(text) {
		t.Errorf("the second write differs:\n%s", cmp.Diff(string(text), string(again)))
	}
	for _, e := range have.Entries {
		if got := have.Lookup(e.Name, e.Platform); got == nil || !got.Same(e) || got.Range.Start.Line < 4 {
			t.Errorf("%s %s: %+v", e.Name, e.Platform, got)
		}
	}
}
