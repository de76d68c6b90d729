package kinds_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// itself is a machine on which the process that applies a plan runs from one of its programs: nothing ends it.
type itself struct{ host.Host }

func (itself) EndProcesses(context.Context, string) error { return nil }

// TestReplacedWhileItRuns: a program from which processes run apart from services is replaced, and they end. A process
// that replaces its own program goes on, with the file renamed, which the next replacement removes.
func TestReplacedWhileItRuns(t *testing.T) {
	for system, path := range map[string]string{"windows": `C:\data\bin\tool.exe`, "linux": "/opt/bin/tool"} {
		for _, own := range []bool{false, true} {
			m := openBox(t, system)
			var h host.Host = m
			art := stepstest.Memory{"http://m/1": []byte("one"), "http://m/2": []byte("two"),
				"http://m/3": []byte("three")}
			tool := func(url string) []steps.Spec {
				return []steps.Spec{stepstest.Spec("binary", "tool", &kinds.Binary{Path: path, Apart: true,
					Source: steps.Source{URL: url, SHA256: stepstest.Hex256(art[url])}})}
			}
			stepstest.Applied(t, h, art, tool("http://m/1"))
			// It stands for a process that something starts.
			stepstest.Must(t, h.CreateService(t.Context(), host.ServiceConfig{Name: "round", Command: []string{path},
				Start: host.StartManual}))
			stepstest.Must(t, h.StartService(t.Context(), "round"))
			if own {
				h = itself{m}
			}
			stepstest.Applied(t, h, art, tool("http://m/2"))
			round, err := h.Service(t.Context(), "round")
			if err != nil || (round.State == host.ServiceRunning) != own || stepstest.Text(t, h, path) != "two" {
				t.Errorf("%s, by itself %v: %v, %+v, and the program is %q", system, own, err, round,
					stepstest.Text(t, h, path))
			}
			old := host.OldName(path)
			if _, err := h.Stat(t.Context(), old); errors.Is(err, fs.ErrNotExist) == own {
				t.Errorf("%s, by itself %v: the old program: %v", system, own, err)
			}
			stepstest.Settled(t, h, art, tool("http://m/2"))
			stepstest.Must(t, m.StopService(t.Context(), "round"))
			stepstest.Must(t, m.StartService(t.Context(), "round"))
			stepstest.Applied(t, m, art, tool("http://m/3"))
			if _, err := h.Stat(t.Context(), old); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the old program stays: %v", system, err)
			}
		}
	}
}

// TestRunningProgramLeaves: processes that run from a program end before a leave removes it, with what a replacement
// has left of it.
func TestRunningProgramLeaves(t *testing.T) {
	const path = `C:\data\bin\tool.exe`
	h := openBox(t, "windows")
	art := stepstest.Memory{"http://m/1": []byte("one")}
	list := []steps.Spec{stepstest.Spec("binary", "tool", &kinds.Binary{Path: path, Apart: true,
		Source: steps.Source{URL: "http://m/1", SHA256: stepstest.Hex256(art["http://m/1"])}})}
	stepstest.Applied(t, h, art, list)
	stepstest.Must(t, h.CreateService(t.Context(), host.ServiceConfig{Name: "round", Command: []string{path},
		Start: host.StartManual}))
	stepstest.Must(t, h.StartService(t.Context(), "round"))
	stepstest.Put(t, h, host.OldName(path), "zero")
	stepstest.Must(t, left(t, h))
	round, err := h.Service(t.Context(), "round")
	if err != nil || round.State != host.ServiceStopped {
		t.Errorf("it runs: %+v, %v", round, err)
	}
	for _, gone := range []string{path, host.OldName(path), `C:\data`} {
		if _, err := h.Stat(t.Context(), gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", gone, err)
		}
	}
}
