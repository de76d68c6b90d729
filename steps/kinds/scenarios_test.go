package kinds_test

import (
	"slices"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// scenario is a machine on which before is applied, then drift happens, and then list is applied.
type scenario struct {
	name   string
	os     string
	before []steps.Spec
	drift  func(t *testing.T, h host.Host)
	list   []steps.Spec
	verify func(t *testing.T, h host.Host)
	boots  bool // an apply of list boots the machine
}

func (s scenario) open(t *testing.T, a steps.Artifacts) host.Host {
	t.Helper()
	h := stepstest.OpenHost(t, s.os)
	if s.before != nil {
		stepstest.Applied(t, h, a, s.before)
	}
	if s.drift != nil {
		s.drift(t, h)
	}
	return h
}

// scenarios returns all scenarios, with the artifacts that they use.
func scenarios(t *testing.T) ([]scenario, stepstest.Memory) {
	art := stepstest.Memory{"http://m/one": []byte("program one"), "http://m/two": []byte("program two"),
		"http://m/1.tgz": stepstest.Tarball(t, "bin/containerd.exe", "c1", "bin/ctr.exe", "t1", "bin/doc.txt", "d"),
		"http://m/2.tgz": stepstest.Tarball(t, "bin/containerd.exe", "c2", "bin/ctr.exe", "t1", "bin/new.exe", "n"),
		"http://m/large.tgz": stepstest.Tarball(t, "bin/containerd.exe", "c2", "bin/ctr.exe", largeMember,
			"bin/new.exe", "n")}
	return slices.Concat(fileScenarios(art), serviceScenarios(art), settingScenarios(), networkScenarios(),
		joinScenarios(t), kernelScenarios(), imageScenarios(t, art)), art
}

// runs checks that the services run.
func runs(names ...string) func(t *testing.T, h host.Host) {
	return func(t *testing.T, h host.Host) {
		for _, n := range names {
			if s, err := h.Service(t.Context(), n); err != nil || s.State != host.ServiceRunning {
				t.Errorf("service %s: %q, %v", n, s.State, err)
			}
		}
	}
}

// holds checks that the file has the content.
func holds(path, want string) func(t *testing.T, h host.Host) {
	return func(t *testing.T, h host.Host) {
		if have := stepstest.Text(t, h, path); have != want {
			t.Errorf("%s holds %q, want %q", path, have, want)
		}
	}
}

// containerdArchive unpacks an archive of art.
func containerdArchive(art stepstest.Memory, url string) steps.Spec {
	return stepstest.Spec("archive", "unpack",
		&kinds.Archive{Source: steps.Source{URL: url, SHA256: stepstest.Hex256(art[url])}, To: `C:\c`, Strip: 1,
			Include: []string{"bin/*.exe"}, Services: []string{"containerd"}})
}

// containerdConfig is containerd's file with the content.
func containerdConfig(content string) steps.Spec {
	return stepstest.Spec("file", "config", &kinds.File{Path: `C:\c\config.toml`, Content: content})
}
