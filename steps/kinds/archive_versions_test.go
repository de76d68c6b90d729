package kinds_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// An archive whose program has another version than the plan says is refused before any of its files is put in place.
// Programs that are not written in Go have no known version.
func TestArchiveVersions(t *testing.T) {
	const info = "\xff Go buildinf:"
	far := strings.Repeat("x", 300_000) // larger than one read
	for name, c := range map[string]struct {
		program string
		refused bool
	}{
		"the version":              {info + far + "v1.36.3" + far, false},
		"the version first":        {"v1.36.3" + far + info, false},
		"another":                  {info + far + "v1.35.4" + far, true},
		"another, in the end":      {far + "v1.35.4" + info, true},
		"no program of Go":         {"stand-in", false},
		"packed, so that none can": {"UPX!" + far, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := stepstest.OpenHost(t, "windows")
			stepstest.Put(t, h, `C:\k\kubelet.exe`, "earlier")
			tgz := stepstest.Tarball(t, "node/bin/kubelet.exe", c.program, "node/bin/kube-proxy.exe", info+"v1.35.4")
			list := []steps.Spec{stepstest.Spec("archive", "node",
				&kinds.Archive{Source: steps.Source{URL: "http://m/node.tgz", SHA256: stepstest.Hex256(tgz)}, To: `C:\k`, Strip: 2,
					Versions: map[string]string{"kubelet.exe": "v1.36.3"}})}
			reply := stepstest.Apply(t, h, stepstest.Memory{"http://m/node.tgz": tgz}, list)
			if !c.refused {
				if have := stepstest.Text(t, h, `C:\k\kubelet.exe`); reply.Err != nil || have != c.program {
					t.Errorf("%d bytes are in place: %v", len(have), reply.Err)
				}
				return
			}
			if e := reply.Err; e == nil || e.Code != steps.CodeOtherVersion ||
				!strings.Contains(e.Detail, "kubelet.exe of version v1.36.3") || e.Remedy == "" {
				t.Errorf("%+v", e)
			}
			if have := stepstest.Text(t, h, `C:\k\kubelet.exe`); have != "earlier" {
				t.Errorf("%d bytes are in place", len(have))
			}
			for _, p := range []string{`C:\k\kube-proxy.exe`, host.TempName(`C:\k\kubelet.exe`)} {
				if _, err := h.Stat(t.Context(), p); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", p, err)
				}
			}
		})
	}
}

// A version for a file that is not unpacked is an error.
func TestArchiveVersionsOfNothing(t *testing.T) {
	tgz := stepstest.Tarball(t, "bin/a.exe", "a", "doc/kubelet.exe", "d")
	list := []steps.Spec{stepstest.Spec("archive", "node",
		&kinds.Archive{Source: steps.Source{URL: "http://m/node.tgz", SHA256: stepstest.Hex256(tgz)}, To: `C:\k`,
			Include:  []string{"bin/*"},
			Versions: map[string]string{"kubelet.exe": "v1.36.3"}})}
	if e := stepstest.Apply(t, stepstest.OpenHost(t, "windows"), stepstest.Memory{"http://m/node.tgz": tgz},
		list).Err; e == nil || e.Code != steps.CodeInvalid || !strings.Contains(e.Detail, `"kubelet.exe"`) {
		t.Errorf("%+v", e)
	}
}

// Version and marker of a program are found wherever a read ends.
func TestArchiveVersionsAtAnyCut(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	const chunk = 32 << 10 // the buffer size of io.Copy
	for at := chunk - 8; at <= chunk; at++ {
		program := "\xff Go buildinf:" + strings.Repeat("x", at-14) + "v1.36.3" + strings.Repeat("y", chunk)
		tgz := stepstest.Tarball(t, "kubelet.exe", program)
		list := []steps.Spec{stepstest.Spec("archive", "node",
			&kinds.Archive{Source: steps.Source{URL: "http://m/node.tgz", SHA256: stepstest.Hex256(tgz)}, To: `C:\k`,
				Versions: map[string]string{"kubelet.exe": "v1.36.3"}})}
		if reply := stepstest.Apply(t, h, stepstest.Memory{"http://m/node.tgz": tgz}, list); reply.Err != nil {
			t.Errorf("at %d: %v", at, reply.Err)
		}
	}
}
