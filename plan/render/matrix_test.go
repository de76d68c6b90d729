package render_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"sigs.k8s.io/yaml"

	"nodejoin/plan"
	"nodejoin/plan/compat"
	"nodejoin/plan/render"
	"nodejoin/plan/source"
	"nodejoin/steps"
	"nodejoin/steps/host"
)

var update = flag.Bool("update", false, "update testdata/matrix.golden")

// The matrix: the components of a node. Every combination is compiled. The golden file
// lists the refused ones and why, one per line. The acceptance tests read it, and pass the
// files of the other combinations to the programs themselves.
var (
	kubernetesVersions = []string{"1.19.16", "1.23.17", "1.24.17", "1.27.16", "1.31.14", "1.34.3", "1.36.3"}
	runtimes           = []string{"containerd 1.6.39", "containerd 1.7.28", "containerd 2.0.7", "containerd 2.4.2",
		"docker 20.10.24"}
	backends = []string{"vxlan", "host-gw"}
	builds   = []string{"10.0.17763.8000", "10.0.20348.4000", "10.0.26100.7000"} // Windows Server 2019, 2022, 2025
)

// TestMatrix: each combination is refused with a diagnostic, or renders files with only
// flags and fields that the programs of exactly these versions have.
func TestMatrix(t *testing.T) {
	var b strings.Builder
	rendered := 0
	for _, k := range kubernetesVersions {
		for _, r := range runtimes {
			for _, backend := range backends {
				for _, w := range builds {
					name := strings.Join([]string{k, r, backend, w}, ", ")
					files, diags := renderPlan(t, k, r, backend, w)
					fmt.Fprintf(&b, "%s: %s\n", name, outcome(diags))
					if diags.HasErrors() {
						continue
					}
					rendered++
					checkFiles(t, name, k, r, files)
				}
			}
		}
	}
	if rendered == 0 {
		t.Error("no combination is rendered")
	}
	golden := filepath.Join("testdata", "matrix.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("the matrix differs (-want +have), rewrite with -update:\n%s", d)
	}
}

// outcome is the result of a plan, on one line.
func outcome(diags hcl.Diagnostics) string {
	var out []string
	for _, d := range diags {
		s := "refused"
		if d.Severity == hcl.DiagWarning {
			if diags.HasErrors() {
				continue
			}
			s = "warning"
		}
		out = append(out, s+": "+d.Summary)
	}
	if len(out) == 0 {
		return "rendered"
	}
	return strings.Join(slices.Compact(out), ", ")
}

func renderPlan(t *testing.T, kubernetes, runtime, backend, build string) ([]render.File, hcl.Diagnostics) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "matrix.plan"))
	if err != nil {
		t.Fatal(err)
	}
	kind, version, _ := strings.Cut(runtime, " ")
	values := map[string]string{"KUBERNETES": kubernetes, "RUNTIME": kind, "RUNTIME_VERSION": version, "BACKEND": backend,
		"BUILD": build, "NAMES": "$NAMES"}
	src := os.Expand(string(text), func(name string) string { return values[name] })
	file := filepath.Join(t.TempDir(), "a"+source.Suffix)
	if err = os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	p, diags := plan.Load(file, plan.Options{Version: "0.1.0", Agent: func(_, _, _ string) (steps.Source, error) {
		return steps.Source{File: "/agent", SHA256: strings.Repeat("a", 64)}, nil
	}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	compiled, diags := p.Compile()
	if diags.HasErrors() {
		return nil, diags
	}
	files, err := render.Nodes(compiled)
	if err != nil {
		t.Fatal(err)
	}
	return files, diags
}

// schema matches the version line of containerd's configuration.
var schema = regexp.MustCompile(`(?m)^version = (\d)$`)

// checkFiles checks the files of a node against the tables of its versions.
func checkFiles(t *testing.T, name, kubernetes, runtime string, files []render.File) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range files {
		base := strings.ToLower(f.Path[strings.LastIndex(f.Path, "/")+1:])
		what, program := "", ""
		switch {
		case strings.HasSuffix(f.Path, "/kubelet/config.yaml"):
			what, program = "kubelet's configuration", compat.KubeletProgram
		case base == "kube-proxy.yaml":
			what, program = "kube-proxy's configuration", compat.KubeProxyProgram
		case strings.HasSuffix(f.Path, "/services/kubelet.json"):
			what, program = "kubelet's service", compat.KubeletProgram
		case strings.HasSuffix(f.Path, "/services/kube-proxy.json"):
			what, program = "kube-proxy's service", compat.KubeProxyProgram
		case base == "config.toml":
			what = "containerd's configuration"
			m := schema.FindSubmatch(f.Data)
			if m == nil {
				t.Errorf("%s: no schema in %s", name, f.Data)
				break
			}
			_, version, _ := strings.Cut(runtime, " ")
			if c, err := compat.LookupContainerd(version); err != nil || c.Schema != int(m[1][0]-'0') {
				t.Errorf("%s: schema %s, want %d, %v", name, m[1], c.Schema, err)
			}
		case strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".conflist"):
			if !json.Valid(f.Data) {
				t.Errorf("%s: %s is not JSON", name, f.Path)
			}
		}
		seen[what] = true
		switch {
		case program == "":
		case strings.HasSuffix(what, "service"):
			checkFlags(t, name, program, kubernetes, f.Data)
		default:
			var v map[string]any
			if err := yaml.UnmarshalStrict(f.Data, &v); err != nil {
				t.Errorf("%s: %s: %v", name, f.Path, err)
				continue
			}
			checkFields(t, name, program, kubernetes, "", v)
		}
	}
	for _, want := range []string{"kubelet's configuration", "kube-proxy's configuration", "kubelet's service",
		"kube-proxy's service", "containerd's configuration"} {
		if !seen[want] && (want != "containerd's configuration" || strings.HasPrefix(runtime, "containerd")) {
			t.Errorf("%s: %s was not rendered", name, want)
		}
	}
}

// checkFlags checks the command line of a service from its program on.
func checkFlags(t *testing.T, name, program, version string, data []byte) {
	t.Helper()
	var s host.ServiceConfig
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(s.Command, func(a string) bool { return strings.HasSuffix(a, `\`+program+".exe") })
	if at < 0 || len(s.Command) < at+3 {
		t.Errorf("%s: no command line of %s in %v", name, program, s.Command)
		return
	}
	for _, arg := range s.Command[at+1:] {
		if v := compat.CheckFlag(program, arg, version); !v.Accepted() {
			t.Errorf("%s: %s: %s", name, arg, v.Why)
		}
	}
}

// checkFields checks every field of a configuration file that has a value of its own.
func checkFields(t *testing.T, name, program, version, path string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if path == "" && (key == "apiVersion" || key == "kind") {
				continue
			}
			checkFields(t, name, program, version, strings.TrimPrefix(path+"."+key, "."), inner)
		}
	case []any:
		if len(v) == 0 || !slices.ContainsFunc(v, func(e any) bool { _, is := e.(map[string]any); return is }) {
			checkField(t, name, program, version, path)
		}
		for _, e := range v {
			if _, is := e.(map[string]any); is {
				checkFields(t, name, program, version, path, e)
			}
		}
	default:
		checkField(t, name, program, version, path)
	}
}

func checkField(t *testing.T, name, program, version, path string) {
	t.Helper()
	if v := compat.CheckField(program, path, version); !v.Accepted() {
		t.Errorf("%s: %s of %s: %s", name, path, program, v.Why)
	}
}
