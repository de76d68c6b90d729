package selftest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/selftest"
)

func open(t *testing.T, system string) *sandbox.Host {
	t.Helper()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), OS: system})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func run(t *testing.T, h host.Host, req selftest.Request) selftest.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := selftest.Run(ctx, h, req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRun: a healthy machine answers every question as expected, and is unchanged afterwards.
func TestRun(t *testing.T) {
	for system, least := range map[string]int{"windows": 35, "linux": 20} {
		h := open(t, system)
		r := run(t, h, selftest.Request{})
		if n := r.Count(selftest.AsExpected); n < least || r.Count(selftest.Otherwise) > 0 || !r.AsBefore {
			text, _ := json.MarshalIndent(r, "", " ")
			t.Errorf("%s: %d as expected, want at least %d: %s", system, n, least, text)
		}
		for _, one := range r.Results {
			if one.Outcome == selftest.NotAsked && one.Seen == "" {
				t.Errorf("%s: no reason: %+v", system, one)
			}
		}
		f, err := h.Facts(t.Context())
		if _, absent := h.Stat(t.Context(), host.Join(system, f.DataDir, "selftest")); err != nil ||
			!errors.Is(absent, fs.ErrNotExist) {
			t.Errorf("%s: its folder: %v, %v", system, err, absent)
		}
	}
}

// TestAreas: only the requested areas run.
func TestAreas(t *testing.T) {
	req, err := selftest.Parse("registry,files")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, one := range run(t, open(t, "windows"), req).Results {
		seen[one.Area] = true
	}
	if len(seen) != 2 || !seen["registry"] || !seen["files"] {
		t.Errorf("%v", seen)
	}
	if _, err := selftest.Parse("registry,printer"); err == nil || !strings.Contains(err.Error(), `"printer"`) {
		t.Errorf("an unknown area: %v", err)
	}
}

// TestInterrupted: wherever a test is interrupted, the next one removes what was left, and the interrupted one does
// not claim that the machine is unchanged when it is not.
func TestInterrupted(t *testing.T) {
	for _, system := range []string{"windows", "linux"} {
		for at := 1; ; at++ {
			h, n := open(t, system), 0
			clean := run(t, h, selftest.Request{}) // makes nodejoin's own folder
			if !clean.AsBefore {
				t.Fatalf("%+v", clean.Differs)
			}
			broken := host.Intercept(h, func(string, string) error {
				if n++; n >= at {
					return errors.New("the power is gone")
				}
				return nil
			})
			_, err := selftest.Run(t.Context(), broken, selftest.Request{})
			if n < at {
				break
			}
			if again := run(t, h, selftest.Request{}); again.Count(selftest.Otherwise) > 0 || !again.AsBefore {
				t.Fatalf("%s: after call %d (%v): %+v", system, at, err, again)
			}
		}
	}
}

// TestNotAsBefore: the report names what could not be removed.
func TestNotAsBefore(t *testing.T) {
	for op, want := range map[string]string{"delete firewall rule": "rule nodejoin-selftest",
		"delete service": "service nodejoin-selftest", "unset environment": "NODEJOIN_SELFTEST"} {
		failed := false
		h := host.Intercept(open(t, "windows"), func(have, _ string) error {
			if have == op && failed {
				return errors.New("denied")
			}
			failed = failed || have == "write file" // from then on: the first cleaning has nothing to do
			return nil
		})
		r := run(t, h, selftest.Request{})
		if r.AsBefore || !strings.Contains(strings.Join(r.Differs, "\n"), want) || r.Count(selftest.Otherwise) == 0 {
			t.Errorf("%s: %v, %q", op, r.AsBefore, r.Differs)
		}
	}
}

// TestSave: an earlier report is kept.
func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "evidence")
	r := selftest.Report{Version: selftest.Version, Build: "26100.6899", Language: "ko-KR"}
	for _, c := range [][2]string{{"", "26100.6899-ko-KR.json"}, {"", "26100.6899-ko-KR-2.json"},
		{"win/1", "26100.6899-ko-KR-win_1.json"}} {
		file, err := r.Save(dir, c[0])
		if err != nil || filepath.Base(file) != c[1] {
			t.Errorf("%s, %v, want %s", file, err, c[1])
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "26100.6899-ko-KR.json"))
	var have selftest.Report
	if err := errors.Join(err, json.Unmarshal(text, &have)); err != nil || have.Build != r.Build {
		t.Errorf("%v: %s", err, text)
	}
}
