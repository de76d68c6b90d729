package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host/sandbox"
)

// TestClock: the guard reports a clock that differs from the API server's by a minute or more, and that it could not
// ask the API server.
func TestClock(t *testing.T) {
	dir := t.TempDir()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		quirks sandbox.Quirks
		want   string // of the problem, "" = none
		err    string
	}{
		"right":          {},
		"little":         {quirks: sandbox.Quirks{ClockSkew: 50 * time.Second}},
		"ahead":          {quirks: sandbox.Quirks{ClockSkew: 2 * time.Hour}, want: "the clock is 2h0m"},
		"behind":         {quirks: sandbox.Quirks{ClockSkew: -2 * time.Hour}, want: "behind the API server's; set it"},
		"nobody answers": {quirks: sandbox.Quirks{API: "refused"}, err: "the API server does not answer: "},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(c.quirks)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			plan := steps.BootPlan{Guard: &steps.Guard{API: "https://192.0.2.1:6443"}}
			have, err := lookClock(t.Context(), h, plan)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if (have != "") != (c.want != "") || !strings.Contains(have, c.want) {
				t.Errorf("%q, want %q", have, c.want)
			}
			plan.Guard.API = ""
			if have, err := lookClock(t.Context(), h, plan); have != "" || err != nil {
				t.Errorf("without an API server: %q, %v", have, err)
			}
		})
	}
}
