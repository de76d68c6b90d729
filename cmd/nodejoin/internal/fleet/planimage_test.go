package fleet

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// TestPlanImage: a plan of more than a ConfigMap holds goes to the pods by a registry: the same plan gives the same
// digest, a pod has its files with those of Secrets, and a plan of another digest is not used.
func TestPlanImage(t *testing.T) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	large := map[string]string{"a.join.hcl": planText, "files/settings.yaml": settings + "# " +
		strings.Repeat("x", 2*mostBytes), "prod.auto.joinvars": ""}
	o := options
	o.PlanImage = "oci://" + strings.TrimPrefix(s.URL, "http://") + "/plans/prod"
	var packed []*PlanImage
	for range 2 {
		c, dir, read := load(t, large)
		f, err := New(o, c, dir, read)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := f.Objects()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range objects {
			if m.Name == "prod-plan" {
				t.Errorf("there is %s", m)
			}
		}
		packed = append(packed, f.Packed)
	}
	if packed[0].Address() != packed[1].Address() {
		t.Errorf("the same plan: %s, %s", packed[0].Address(), packed[1].Address())
	}
	for range 2 { // the second finds it there
		if err := packed[0].push(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	over := t.TempDir() // as a volume of Kubernetes: links
	if err := os.MkdirAll(filepath.Join(over, "..data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(over, "..data", "prod.auto.joinvars"), []byte("a = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..data", "prod.auto.joinvars"),
		filepath.Join(over, "prod.auto.joinvars")); err != nil {
		t.Skip("no links here:", err)
	}
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, t.TempDir())
	}
	to, ran := filepath.Join(t.TempDir(), "plan"), 0
	x := &command{Options: Options{PlanImage: packed[0].Address()}, over: over, App: App{Out: io.Discard, Err: io.Discard,
		Run: func(_ context.Context, args []string, _, _ io.Writer) int {
			if ran++; !slices.Contains(args, to) {
				t.Errorf("ran %q", args)
			}
			for name, want := range map[string]string{"files/settings.yaml": large["files/settings.yaml"],
				"a.join.hcl": planText, "prod.auto.joinvars": "a = 1\n"} {
				b, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(name)))
				if err != nil || string(b) != want {
					t.Errorf("%s: %d bytes, %v", name, len(b), err)
				}
			}
			return codeOK
		}}}
	r := Result{Shard: 1, Shards: 2}
	if x.run(t.Context(), &r, []string{"apply", to}); r.Code != codeOK || ran != 1 {
		t.Errorf("%+v, run %d times", r, ran)
	}
	x.PlanImage = packed[0].Address()[:len(packed[0].Address())-64] + strings.Repeat("a", 64)
	if x.run(t.Context(), &r, []string{"apply", to}); r.Code != codeUnreachable || ran != 1 ||
		!strings.Contains(r.Stderr, "the plan cannot be read: ") {
		t.Errorf("%+v, run %d times", r, ran)
	}
}

// TestOtherCluster: the pods have the kubeconfig of the plan's cluster as a Secret, where they run in another, and no
// rights in the one that they run in but those to write results.
func TestOtherCluster(t *testing.T) {
	const kubeconfig = "clusters: [{name: a, cluster: {server: \"https://a\"}}]\nusers: [{name: a, user: {token: x}}]\n"
	for at, inPlan := range map[string]bool{"admin.conf": true, "/etc/kubernetes/admin.conf": false} {
		c, dir, read := load(t, map[string]string{"a.join.hcl": strings.Replace(planText, `"admin.conf"`, `"`+at+`"`, 1),
			"files/settings.yaml": settings})
		o := options
		o.PodKubeconfig = []byte(kubeconfig)
		f, err := New(o, c, dir, read)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := f.Objects()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range objects {
			if strings.HasPrefix(m.Kind, "ClusterRole") || m.Namespace == "kube-system" {
				t.Errorf("%s", m)
			}
		}
		secrets := f.secrets(nil)
		if len(secrets) != 1 || secrets[0].Name != "prod-kubeconfig" {
			t.Errorf("Secrets: %v", secrets)
		}
		var b bytes.Buffer
		if err := f.Render(&b); err != nil {
			t.Fatal(err)
		}
		want := []string{`"--kubeconfig","/home/nodejoin/.fleet/kubeconfig"`, "mountPath:/home/nodejoin/.fleet,"}
		if inPlan {
			want = append(want, "-secret:\nname:prod-kubeconfig\n")
		} else {
			want = append(want, "secret:{secretName:prod-kubeconfig,defaultMode:0440}")
		}
		for _, w := range want {
			if !strings.Contains(strings.ReplaceAll(b.String(), " ", ""), w) {
				t.Errorf("%s: no %q", at, w)
			}
		}
	}
	for text, want := range map[string]string{
		kubeconfig:                  "",
		"a: [":                      "it is not a kubeconfig: ",
		"a: b":                      "it has 0 clusters and 0 users",
		kubeconfig + "kind: Config": "",
		strings.Replace(kubeconfig, "{server:", "{certificate-authority: ca.crt, server:", 1): `its cluster "a" has the ` +
			"field certificate-authority, and a pod does not have that file or program",
		strings.Replace(kubeconfig, "{token: x}", "{exec: {command: aws}}", 1): `its user "a" has the field exec`,
	} {
		err := checkKubeconfig([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
