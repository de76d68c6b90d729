package recipe

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
)

// TestGuarded: only the system and administrators may change the files that a service of a Windows node is
// started from. By default any user may create files below C:\, but not below C:\Program Files. The parent
// folders are created private, or the preflight checks them.
func TestGuarded(t *testing.T) {
	for name, in := range variants() {
		if in.OS == "windows" {
			t.Run(name, func(t *testing.T) { wantGuarded(t, expand(t, in)) })
		}
	}
}

func wantGuarded(t *testing.T, specs []steps.Spec) {
	var folders, files []string // private ones, in lower case
	var looked []string         // paths whose parent folders are checked
	for _, s := range specs {
		var a struct {
			Path   string
			Access host.Access
		}
		if err := json.Unmarshal(s.Args.JSON(), &a); err != nil {
			t.Fatal(err)
		}
		switch {
		case s.Kind == "directory" && a.Access == host.AccessPrivate:
			folders = append(folders, strings.ToLower(a.Path)+`\`)
		case s.Kind == "file" && a.Access == host.AccessPrivate || s.Kind == "kubeconfig":
			files = append(files, strings.ToLower(a.Path))
		case s.Kind == "preflight":
			var q preflight.Preflight
			if err := json.Unmarshal(s.Args.JSON(), &q); err != nil {
				t.Fatal(err)
			}
			looked = q.Guarded
		case s.Kind == "kubeadm_join":
			files = append(files, strings.ToLower(kubeletConfig))
		}
	}
	folders = append(folders, `c:\program files\`)
	guarded := func(path string) bool {
		path = strings.ToLower(path)
		return slices.Contains(files, path) ||
			slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(path, f) })
	}
	seen := 0
	for _, s := range specs {
		if s.Kind != "service" {
			continue
		}
		var svc kinds.Service
		if err := json.Unmarshal(s.Args.JSON(), &svc); err != nil {
			t.Fatal(err)
		}
		for _, path := range append(svc.Watch, svc.Command[0]) {
			seen++
			if !guarded(path) {
				t.Errorf("service %s is started from %s, which any user may change", svc.Name, path)
			}
			for dir := host.Dir("windows", path); len(dir) > len(`C:\`); dir = host.Dir("windows", dir) {
				below := func(p string) bool { return strings.HasPrefix(strings.ToLower(p)+`\`, strings.ToLower(dir)+`\`) }
				if !guarded(dir+`\`) && !slices.ContainsFunc(looked, below) {
					t.Errorf("service %s: nothing checks %s, which is above %s", svc.Name, dir, path)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no service was checked")
	}
}
