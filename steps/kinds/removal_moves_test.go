package kinds_test

import (
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// Plugins that only the old version has are removed; what others have put beside them stays, and what an old plugin
// had replaced is restored.
func TestPluginsOfAnOldVersion(t *testing.T) {
	for _, os := range []string{"windows", "linux"} {
		dir, exe, sep := `C:\opt\cni\bin`, ".exe", `\`
		if os == "linux" {
			dir, exe, sep = "/opt/cni/bin", "", "/"
		}
		old := stepstest.Tarball(t, "bridge"+exe, "1", "vlan"+exe, "1", "theirs-too"+exe, "1", "docs/old.md", "1")
		next := stepstest.Tarball(t, "bridge"+exe, "2", "tap"+exe, "2")
		plugins := func(b []byte, url string) []steps.Spec {
			return []steps.Spec{stepstest.Spec("archive", "cni_plugins", &kinds.Archive{
				Source: steps.Source{URL: url, SHA256: stepstest.Hex256(b)}, To: dir})}
		}
		art := stepstest.Memory{"http://m/old.tgz": old, "http://m/next.tgz": next}
		t.Run(os, func(t *testing.T) {
			s := transition{os, os, plugins(old, "http://m/old.tgz"), plugins(next, "http://m/next.tgz")}
			s.run(t, art, func(h *box) {
				stepstest.Put(t, h, dir+sep+"theirs"+exe, "theirs")
				stepstest.Put(t, h, dir+sep+"theirs-too"+exe, "theirs")
			})
		})
	}
}

// A step whose target moves leaves nothing behind at the old place: a program that a service runs, a folder that stays
// because of another file in it, a folder above the new one, and a path that is only spelled differently.
func TestMovedSteps(t *testing.T) {
	file := func(id, path string) steps.Spec {
		return stepstest.Spec("file", id, &kinds.File{Path: path, Content: id})
	}
	dir := func(path string) steps.Spec {
		return stepstest.Spec("directory", "dir", &kinds.Directory{Path: path})
	}
	runs := func(exe string) steps.Spec {
		s := stepstest.Service("app", exe)
		return stepstest.Spec("service", "app", s)
	}
	env := func(name string) steps.Spec {
		return stepstest.Spec("env", "proxy", &kinds.MachineEnv{Name: name, Value: "x"})
	}
	for _, s := range []transition{
		{"a program that runs", "windows", []steps.Spec{file("exe", `C:\old\bin\app.exe`), runs(`C:\old\bin\app.exe`)},
			[]steps.Spec{file("exe", `C:\new\app.exe`), runs(`C:\new\app.exe`)}},
		{"a program that runs, on Linux", "linux", []steps.Spec{file("exe", "/opt/old/app"), runs("/opt/old/app")},
			[]steps.Spec{file("exe", "/opt/app"), runs("/opt/app")}},
		{"one file of two", "windows", []steps.Spec{file("a", `C:\x\a`), file("b", `C:\x\b`)},
			[]steps.Spec{file("a", `C:\y\a`), file("b", `C:\x\b`)}},
		{"a folder below itself", "windows", []steps.Spec{dir(`C:\x\y`)}, []steps.Spec{dir(`C:\x\y\z`)}},
		{"a folder above itself", "windows", []steps.Spec{dir(`C:\x\y\z`)}, []steps.Spec{dir(`C:\x`)}},
		{"two that change places", "windows", []steps.Spec{file("a", `C:\x\1`), file("b", `C:\x\2`)},
			[]steps.Spec{file("a", `C:\x\2`), file("b", `C:\x\1`)}},
		{"a service with another name", "windows", []steps.Spec{file("exe", `C:\k\app.exe`), runs(`C:\k\app.exe`)},
			[]steps.Spec{file("exe", `C:\k\app.exe`), stepstest.Spec("service", "app",
				stepstest.Service("app2", `C:\k\app.exe`))}},
		{"a variable", "linux", []steps.Spec{env("HTTP_PROXY")}, []steps.Spec{env("http_proxy")}},
		{"a registry value", "windows", []steps.Spec{value("a", 1)}, []steps.Spec{value("b", 1)}},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(t, stepstest.Memory{}, func(*box) {}) })
	}
}

// On Windows a path that is spelled differently is the same path, and nothing moves.
func TestSamePathStays(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	for _, path := range []string{`C:\Site\Conf`, `c:\site\conf`} {
		r, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p",
			[]steps.Spec{stepstest.Spec("file", "a", &kinds.File{Path: path, Content: "x"})})
		stepstest.Must(t, err)
		if r.Removals.Pending() > 0 {
			t.Errorf("with %s would go: %+v", path, r.Removals)
		}
	}
	if have := stepstest.Text(t, h, `C:\Site\Conf`); have != "x" {
		t.Errorf("it holds %q", have)
	}
}
