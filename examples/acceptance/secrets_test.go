package acceptance_test

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// secretForms matches the secrets that a run mints or gets: bootstrap tokens, service account tokens, private
// keys.
var secretForms = regexp.MustCompile(
	`\b[a-z0-9]{6}\.[a-z0-9]{16}\b|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// secretIn returns a secret in text, with its surroundings; "" = none.
func secretIn(text []byte) string {
	at := secretForms.FindIndex(text)
	if at == nil {
		return ""
	}
	return string(text[max(0, at[0]-100):min(len(text), at[1]+20)])
}

// noSecret checks that nodejoin has printed no secret.
func noSecret(t *testing.T, what string, text []byte) {
	t.Helper()
	if s := secretIn(text); s != "" {
		t.Errorf("%s: a secret is in it: ...%s...", what, s)
	}
}

// noSecretBelow checks that the files below root whose names match pattern have no secret. The folder may be
// missing.
func noSecretBelow(root, pattern string) error {
	var found []error
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if ok, err := filepath.Match(pattern, d.Name()); !ok {
			return err
		}
		text, err := os.ReadFile(path)
		if s := secretIn(text); s != "" {
			found = append(found, errors.New(path+": a secret is in it: ..."+s+"..."))
		}
		return err
	})
	return errors.Join(append(found, err)...)
}

// noSecretKept checks that nodejoin's files and logs on the machine have no secret.
func (b *bed) noSecretKept() {
	b.t.Helper()
	if err := errors.Join(noSecretBelow(b.host.Path(dataDir), "*.json"),
		noSecretBelow(b.host.Path(`C:\var\log`), "*.log*")); err != nil {
		b.t.Error(err)
	}
}

// wantBundle: the file for a bug report has what a report needs of the real programs, and
// no secret.
func (b *bed) wantBundle(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "logs.zip")
	if out, code := released(t).output(ctx, t, append([]string{"logs", "-o", name}, args...)...); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	bundle, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer bundle.Close()
	texts := map[string]string{}
	for _, e := range bundle.File {
		r, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		noSecret(t, e.Name, text)
		texts[e.Name] = string(text)
	}
	for entry, want := range map[string]string{
		"about.txt":                                       "Please add: what you did",
		nodeName + "/check.json":                          `"in_sync"`,
		nodeName + "/services/kubelet.json":               `"running"`,
		nodeName + "/logs/C/var/log/kubelet/kubelet.log":  "kubelet",
		nodeName + "/hns/" + network + ".json":            `"Overlay"`,
		nodeName + "/files/C/var/lib/kubelet/config.yaml": "KubeletConfiguration",
		nodeName + "/cluster/node.json":                   nodeName,
		nodeName + "/history.json":                        `"done"`,
	} {
		if !strings.Contains(texts[entry], want) {
			t.Errorf("%s has no %s; missing: %s\n%s", entry, want, texts["missing.txt"], tail(texts[entry]))
		}
	}
}
