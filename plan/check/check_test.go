package check

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"nodejoin/steps/kube"
)

var update = flag.Bool("update", false, "write what the corpus gives as what is wanted")

// TestCorpus runs the cases of testdata. A case is a txtar archive: its files are checked,
// and its comment has one directive a line:
//
//	# free text
//	node NAME BUILD [KEY=VALUE] [KEY=VALUE:EFFECT]   a Windows node; BUILD "-" = not known
//	runtime KIND         default containerd
//	kubernetes VERSION   default 1.36.3
//
// Without a node there is win-1 10.0.20348 os=windows:NoSchedule.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, in := "", []File{}
			for _, f := range ar.Files {
				if f.Name == "want" {
					want = string(f.Data)
				} else {
					in = append(in, File{f.Name, f.Data})
				}
			}
			r, err := Run(in, testCluster(t, string(ar.Comment)))
			have := text(r, err)
			for _, f := range r.Findings {
				seen[f.ID] = true
				if f.Why == "" || f.Remedy == "" || f.Object == "" {
					t.Errorf("%+v is not complete", f)
				}
			}
			if have == want {
				return
			}
			if !*update {
				t.Fatalf("(-want +have), -update writes it:\n%s", cmp.Diff(want, have))
			}
			ar.Files = append(slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" }),
				txtar.File{Name: "want", Data: []byte(have)})
			if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, r := range Rows() {
		if !seen[r.ID] {
			t.Errorf("no case of the corpus shows %s", r.ID)
		}
	}
}

func text(r Report, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s:%d,%d: %s: %s: %s %s: %s\n", f.File, f.Line, f.Column, f.Severity, f.ID, f.Object,
			f.Field, f.Observed)
	}
	fmt.Fprintf(&b, "%d objects, %d with pods, %d for Windows\n", r.Objects, r.Pods, r.Windows)
	return b.String()
}

func testCluster(t *testing.T, comment string) Cluster {
	t.Helper()
	c := Cluster{Kubernetes: "1.36.3", Runtime: "containerd"}
	for line := range strings.Lines(comment) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "runtime":
			c.Runtime = words[1]
		case words[0] == "kubernetes":
			c.Kubernetes = words[1]
		case words[0] == "node":
			c.Nodes = append(c.Nodes, testNode(words[1], words[2], words[3:]...))
		default:
			t.Fatalf("unknown directive %q", line)
		}
	}
	if c.Nodes == nil {
		c.Nodes = []Node{testNode("win-1", "10.0.20348", "os=windows:NoSchedule")}
	}
	return c
}

func testNode(name, build string, more ...string) Node {
	n := Node{Name: name, Build: build, Labels: map[string]string{osLabel: "windows", betaOSLabel: "windows",
		"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, buildLabel: build}}
	if build == "-" {
		n.Build = ""
		delete(n.Labels, buildLabel)
	}
	for _, m := range more {
		key, value, _ := strings.Cut(m, "=")
		if taint, effect, ok := strings.Cut(value, ":"); ok {
			n.Taints = append(n.Taints, kube.Taint{Key: key, Value: taint, Effect: effect})
		} else {
			n.Labels[key] = value
		}
	}
	return n
}

// Each row has its own id and a reason.
func TestRowsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rows() {
		if seen[r.ID] || r.Why == "" {
			t.Errorf("row %q is a duplicate or gives no reason", r.ID)
		}
		seen[r.ID] = true
	}
	for _, f := range slices.Concat(podFields, containerFields) {
		rowOf(f.id)
	}
}

func TestImageBuild(t *testing.T) {
	for image, want := range map[string]int{
		"mcr.microsoft.com/windows/servercore:ltsc2019": 17763, "mcr.microsoft.com/windows/nanoserver:1809": 17763,
		"mcr.microsoft.com/windows/server:ltsc2022":               20348,
		"mcr.microsoft.com/windows/nanoserver:10.0.20348.1607":    20348,
		"mcr.microsoft.com/windows/nanoserver:10.0.17763-amd64":   17763,
		"mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-ltsc2022": 20348, "openjdk:17-windowsservercore-1809": 17763,
		"registry.example:5000/team/app:1.0-ltsc2025":       26100,
		"python:3.12-windowsservercore-ltsc2022@sha256:abc": 20348, "mcr.microsoft.com/windows/nanoserver:20H2": 19042,
		"nginx:1.25": 0, "example/app:1809": 0, "registry.example:1809/app": 0, "registry.windows.example/app:2004": 0,
		"mcr.microsoft.com/windows/servercore": 0, "": 0,
		"registry.k8s.io/pause:3.10": 0, "app@sha256:18091809": 0, "example/app:2.ltsc2022x": 0,
	} {
		if have, _ := imageBuild(image); have != want {
			t.Errorf("%s: build %d, want %d", image, have, want)
		}
	}
}

func FuzzRun(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range ar.Files {
			if part.Name != "want" {
				f.Add(part.Data)
			}
		}
	}
	f.Add([]byte("a: &a [*a]\nkind: List\nitems: *a\n"))
	f.Add([]byte("kind: Pod\nspec: &s\n  <<: *s\n  containers: [*s]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := Cluster{Kubernetes: "1.36.3", Runtime: "containerd",
			Nodes: []Node{testNode("win-1", "10.0.20348", "os=windows:NoSchedule")}}
		r, err := Run([]File{{"f", data}}, c)
		if err == nil && r.Objects == 0 {
			t.Error("no object, and no error")
		}
		for _, f := range r.Findings {
			if f.Line < 1 || f.Column < 1 {
				t.Errorf("%+v has no place", f)
			}
		}
	})
}
