// Package pagetest looks at pages in headless Chromium, for tests.
package pagetest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// seen is what the script below finds.
type seen struct {
	Wide    int      // how far the page is wider than its window, in pixels
	Outside []string // marked elements that are not in the window, from left to right
	Covered []string // boxes of a drawing that a button covers
	Dim     []string // texts with too little contrast
	Texts   int      // that were measured
}

// measure runs in the page. Of each text it takes the colour and the colour behind it (contrast: WCAG 2.2, 1.4.3).
//
//go:embed measure.html
var measure string

var (
	policy = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)
	result = regexp.MustCompile(`data-seen="([^"]*)"`)
)

// Check fails where a page has an error in its console, reaches out of a window of a width, or has text that is hard
// to read, in light and in dark. Without Chromium it skips, and in go test ./... of CI, which runs it later.
func Check(t *testing.T, page []byte, width int) {
	t.Helper()
	if os.Getenv("CI") != "" && os.Getenv("NODEJOIN_TEST_RELEASE") == "" {
		t.Skip("half a minute in Chromium; .ci/run has a part for it, with NODEJOIN_TEST_RELEASE=1")
	}
	program := ""
	for _, name := range []string{"google-chrome", "chromium-browser", "chromium", "chromium-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
		}
	}
	if program == "" {
		t.Skip("Chromium is not installed")
	}
	measured := strings.Replace(policy.ReplaceAllString(string(page), ""), "</body>", measure+"</body>", 1)
	const light = 1 // as Blink counts them
	if out := dump(t, program, string(page), width, light); strings.Contains(out, ":CONSOLE") {
		t.Errorf("%d pixels: the console has an error:\n%s", width, out)
	}
	for scheme, name := range []string{"dark", "light"} {
		out := dump(t, program, measured, width, scheme)
		m := result.FindStringSubmatch(out)
		var s seen
		if m == nil || json.Unmarshal([]byte(strings.ReplaceAll(m[1], "&quot;", `"`)), &s) != nil {
			t.Fatalf("%d pixels, %s: nothing was measured:\n%.2000s", width, name, out)
		}
		if s.Wide > 0 || len(s.Outside) > 0 || len(s.Covered) > 0 || len(s.Dim) > 0 || s.Texts == 0 {
			t.Errorf("%d pixels, %s: %d too wide, outside %q, covered %q, hard to read %q, of %d texts", width, name, s.Wide,
				s.Outside, s.Covered, s.Dim, s.Texts)
		}
	}
}

// dump is the document after it was loaded, and what Chromium logs.
func dump(t *testing.T, program, page string, width, scheme int) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-dev-shm-usage",
		"--user-data-dir="+filepath.Join(dir, "profile"), fmt.Sprintf("--window-size=%d,900", width),
		fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme), "--enable-logging=stderr", "--dump-dom",
		"file://"+file).CombinedOutput()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, out)
	}
	return string(out)
}
