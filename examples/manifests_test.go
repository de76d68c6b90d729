package examples_test

import (
	"os"
	"path/filepath"
	"testing"

	"nodejoin/examples/internal/exampletest"
	"nodejoin/plan/check"
)

// The sample web server of the plan runs on its nodes with the RuntimeClass that its
// manifests create. It does not run as older documents describe it.
func TestManifestsPods(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "quickstart", "mirror"), os.DirFS("quickstart/mirror")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "manifests")
	copyPlan(t, "manifests", dir)
	cluster := check.Of(exampletest.Compile(t, dir, nil))
	if len(cluster.Nodes) != 2 || len(cluster.Classes) != 2 {
		t.Fatalf("%+v", cluster)
	}
	text, err := os.ReadFile("manifests/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, err := check.Run([]check.File{{Name: "web.yaml", Data: text}}, cluster)
	if err != nil || len(r.Findings) > 0 || r.Windows != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	old := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  nodeSelector: {beta.kubernetes.io/os: " +
		"windows}\n  containers: [{name: web, image: 'mcr.microsoft.com/windows/servercore:ltsc2019'}]\n"
	r, err = check.Run([]check.File{{Name: "old.yaml", Data: []byte(old)}}, cluster)
	found := map[string]bool{}
	for _, f := range r.Findings {
		found[f.ID] = true
	}
	if err != nil || !found["deprecated-label"] || !found["taint"] || !found["image-build"] {
		t.Errorf("%+v, %v", r, err)
	}
}
