package kinds_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// A failure of the machine is reported neither as absence nor as a wrong digest.
func TestDiskFull(t *testing.T) {
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), Capacity: 1 << 16})
	stepstest.Must(t, err)
	big := []byte(strings.Repeat("x", 1<<17))
	tgz := stepstest.Tarball(t, "x.exe", string(big))
	art := stepstest.Memory{"http://m/x": big, "http://m/x.tgz": tgz}
	for _, s := range []steps.Spec{
		stepstest.Spec("binary", "b",
			&kinds.Binary{Source: steps.Source{URL: "http://m/x", SHA256: stepstest.Hex256(big)}, Path: `C:\k\x.exe`}),
		stepstest.Spec("archive", "a",
			&kinds.Archive{Source: steps.Source{URL: "http://m/x.tgz", SHA256: stepstest.Hex256(tgz)}, To: `C:\k`}),
	} {
		r := stepstest.Apply(t, h, art, []steps.Spec{s})
		if r.Err == nil || r.Err.Code != steps.CodeNoSpace {
			t.Errorf("%s: %+v", s.Kind, r.Err)
		}
		if left, err := h.List(t.Context(), `C:\k`); len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left behind: %+v, %v", left, err)
		}
	}

	// A small member that was deleted: the disk is found full while the services of the archive still run.
	tgz = stepstest.Tarball(t, "app.exe", "x", "lib.dll", string(big[:1<<14]))
	unpack := stepstest.Spec("archive", "a", &kinds.Archive{To: `C:\k`, Services: []string{"app"},
		Source: steps.Source{URL: "http://m/x.tgz", SHA256: stepstest.Hex256(tgz)}})
	art = stepstest.Memory{"http://m/x.tgz": tgz}
	stepstest.Applied(t, h, art, []steps.Spec{unpack,
		stepstest.Spec("service", "app", stepstest.Service("app", `C:\k\app.exe`))})
	stepstest.Must(t, h.Remove(t.Context(), `C:\k\lib.dll`))
	stepstest.Put(t, h, `C:\theirs`, string(big[:1<<16-1<<13-1<<12]))
	r := stepstest.Apply(t, h, art, []steps.Spec{unpack})
	svc, err := h.Service(t.Context(), "app")
	if r.Err == nil || r.Err.Code != steps.CodeNoSpace || err != nil || svc.State != host.ServiceRunning {
		t.Errorf("%+v; the service is %q, %v", r.Err, svc.State, err)
	}
}
