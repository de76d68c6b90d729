package kinds_test

import (
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// fileScenarios are those of files, programs and archives.
func fileScenarios(art stepstest.Memory) []scenario {
	binary := func(url string) steps.Spec {
		return stepstest.Spec("binary", "exe",
			&kinds.Binary{Source: steps.Source{URL: url, SHA256: stepstest.Hex256(art[url])}, Path: `C:\k\worker.exe`,
				Services: []string{"worker"}})
	}
	binary512 := func(url string) steps.Spec {
		return stepstest.Spec("binary", "exe",
			&kinds.Binary{Source: steps.Source{URL: url, SHA512: stepstest.Hex512(art[url])}, Path: `C:\k\tool.exe`})
	}

	return []scenario{
		{name: "directory",
			list: []steps.Spec{stepstest.Spec("directory", "d", &kinds.Directory{Path: `C:\a\b`, Access: host.AccessPrivate})}},
		{name: "file fresh", list: []steps.Spec{containerdConfig("x")}, verify: holds(`C:\c\config.toml`, "x")},
		{name: "file drifted", before: []steps.Spec{containerdConfig("x")}, drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\c\config.toml`, "edited")
		},
			list: []steps.Spec{containerdConfig("x")}, verify: holds(`C:\c\config.toml`, "x")},
		{name: "file made private", before: []steps.Spec{containerdConfig("x")},
			list: []steps.Spec{stepstest.Spec("file", "config", &kinds.File{Path: `C:\c\config.toml`, Content: "x",
				Access: host.AccessPrivate, Sensitive: true})}},
		{name: "file checked", before: []steps.Spec{stepstest.Spec("file", "exe",
			&kinds.File{Path: `C:\c\containerd.exe`, Content: "c"})},
			list: []steps.Spec{stepstest.Spec("file", "config", &kinds.File{Path: `C:\c\config.toml`, Content: "x",
				CheckedBy: []string{`C:\c\containerd.exe`, "--config", kinds.CheckedFile, "config", "dump"}})},
			verify: holds(`C:\c\config.toml`, "x")},
		{name: "empty file", list: []steps.Spec{containerdConfig("")}},
		{name: "file removed", before: []steps.Spec{containerdConfig("x")},
			list: []steps.Spec{stepstest.Spec("file", "config", &kinds.File{Path: `C:\c\config.toml`, Absent: true})}},
		{name: "linux program", os: "linux",
			list: []steps.Spec{stepstest.Spec("file", "f", &kinds.File{Path: "/opt/x.sh", Content: "#!",
				Access: host.AccessProgram})}},
		{name: "linux access drifted", os: "linux",
			before: []steps.Spec{stepstest.Spec("file", "f", &kinds.File{Path: "/opt/x", Content: "#!"})},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.SetAccess(t.Context(), "/opt/x", host.AccessPrivate))
			},
			list: []steps.Spec{stepstest.Spec("file", "f", &kinds.File{Path: "/opt/x", Content: "#!"})}},
		{name: "binary fresh", list: []steps.Spec{binary("http://m/one")},
			verify: holds(`C:\k\worker.exe`, "program one")},
		{name: "binary by sha512", list: []steps.Spec{binary512("http://m/one")}},
		{name: "binary by sha512 replaced", before: []steps.Spec{binary512("http://m/one")},
			list:   []steps.Spec{binary512("http://m/two")},
			verify: holds(`C:\k\tool.exe`, "program two")},
		{name: "running binary replaced",
			before: []steps.Spec{binary("http://m/one"),
				stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`))},
			list: []steps.Spec{binary("http://m/two"),
				stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`))},
			verify: runs("worker")},
		{name: "archive fresh", list: []steps.Spec{containerdArchive(art, "http://m/1.tgz")},
			verify: holds(`C:\c\containerd.exe`, "c1")},
		{name: "archive drifted", before: []steps.Spec{containerdArchive(art, "http://m/1.tgz")},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), `C:\c\ctr.exe`))
				stepstest.Put(t, h, `C:\c\containerd.exe`, "x")
			},
			list: []steps.Spec{containerdArchive(art, "http://m/1.tgz")}, verify: holds(`C:\c\containerd.exe`, "c1")},
		{name: "archive of another version", before: []steps.Spec{containerdArchive(art, "http://m/1.tgz")},
			list: []steps.Spec{containerdArchive(art, "http://m/large.tgz")}, verify: holds(`C:\c\new.exe`, "n")},
		{name: "archive with a large member", list: []steps.Spec{containerdArchive(art, "http://m/large.tgz")},
			verify: func(t *testing.T, h host.Host) {
				holds(`C:\c\containerd.exe`, "c2")(t, h)
				holds(`C:\c\ctr.exe`, largeMember)(t, h)
				holds(`C:\c\new.exe`, "n")(t, h)
			}},
		{name: "linux archive with a program that is not executable any more", os: "linux",
			before: []steps.Spec{linuxArchive(art)},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.SetAccess(t.Context(), "/opt/c/ctr.exe", host.AccessDefault))
			},
			list: []steps.Spec{linuxArchive(art)},
			verify: func(t *testing.T, h host.Host) {
				fi, err := h.Stat(t.Context(), "/opt/c/ctr.exe")
				if err != nil || fi.Access != host.AccessProgram {
					t.Errorf("%+v, %v", fi, err)
				}
			}},
	}
}

// largeMember is the content of a member of an archive that does not wait in memory.
var largeMember = strings.Repeat("0123456789abcdef", 5<<16)

func linuxArchive(art stepstest.Memory) steps.Spec {
	const url = "http://m/1.tgz"
	return stepstest.Spec("archive", "unpack", &kinds.Archive{
		Source: steps.Source{URL: url, SHA256: stepstest.Hex256(art[url])}, To: "/opt/c", Strip: 1})
}
