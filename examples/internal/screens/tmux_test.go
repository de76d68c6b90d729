package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tmux is a real terminal: it wraps what is on the screen when its window gets narrower, and its driver shows keys.
type tmux struct {
	t    *testing.T
	args []string
}

// openTmux runs nodejoin in a window of 120 columns and 40 lines, which stays once the command has ended.
func openTmux(t *testing.T, w *world, args ...string) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	x := &tmux{t, []string{"-S", filepath.Join(t.TempDir(), "s"), "-f", os.DevNull}}
	t.Cleanup(func() { _ = exec.Command("tmux", append(x.args, "kill-server")...).Run() })
	command := append([]string{"new-session", "-d", "-x", "120", "-y", "40", "-c", w.dir, "env", "-i"}, w.env...)
	// As in a shell, something stands above: tmux keeps what is erased from the first line of a window on.
	command = append(append(command, "TERM=screen-256color", "sh", "-c", `echo '$ nodejoin'; exec "$0" "$@"`, w.program),
		args...)
	x.do(append([]string{"start-server", ";", "set", "-g", "remain-on-exit", "on", ";", "set", "-g", "history-limit",
		"10000", ";"}, command...)...)
	return x
}

func (x *tmux) do(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append(x.args, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// until waits for what the window shows, with all that has scrolled away; shown are lines as they were printed, which
// the window may have wrapped.
func (x *tmux) until(patterns ...string) (shown string) {
	x.t.Helper()
	missing := ""
	end := time.Now().Add(longest)
	for time.Now().Before(end) {
		shown = strings.TrimSpace(x.do("capture-pane", "-p", "-J", "-S", "-"))
		missing = ""
		for _, p := range patterns {
			if !regexp.MustCompile("(?m)" + p).MatchString(shown) {
				missing = p
			}
		}
		if missing == "" {
			return shown
		}
		time.Sleep(50 * time.Millisecond)
	}
	x.t.Fatalf("the window does not come to show %q:\n%s", missing, shown)
	return ""
}

// TestNarrowed: a window that gets narrower and wider again while a run moves in it, keys that are typed meanwhile,
// and Ctrl-C leave no line of the run's frames.
func TestNarrowed(t *testing.T) {
	const repository = "../../.."
	program, err := build(t.Context(), repository, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(t.TempDir(), repository, program, sizes[2])
	if err != nil {
		t.Fatal(err)
	}
	w.write("prod/wait.join.hcl", waits)
	w.edit("prod/prod.join.hcl", `{ "win-1" = "192.0.2.11", "win-2" = "192.0.2.12" }`,
		`{ for i in range(10) : format("win-%02d", i + 1) => "192.0.2.${11 + i}" }`)
	if w.err != nil {
		t.Fatal(w.err)
	}
	x := openTmux(t, w, "apply", "--auto-approve", "prod")
	at := func(columns int) []string {
		all := []string{"^Applying  0/10 hosts"}
		for i := range 10 {
			const begin = "win-%02d  inventory  waits"
			rest := columns - 1 - len(fmt.Sprintf(begin, i+1)) // a frame leaves the last column free
			all = append(all, fmt.Sprintf("^"+begin+".{%d}$", i+1, rest))
		}
		return all
	}
	x.until(at(120)...)
	for _, columns := range []int{60, 80} {
		x.do("resize-window", "-x", fmt.Sprint(columns), "-y", "40")
		shown := x.until(at(columns)...)
		if n := strings.Count(shown, "Applying"); n != 1 {
			t.Errorf("%d columns: %d frames:\n%s", columns, n, shown)
		}
	}
	x.do("send-keys", "typed", "Enter", "Enter", "C-c")
	shown := x.until(`^  nodejoin apply prod$`)
	for _, left := range []string{"Checking", "Applying", "inventory  waits", "typed", "^C"} {
		if strings.Contains(shown, left) {
			t.Errorf("the run left %q:\n%s", left, shown)
		}
	}
	if !strings.Contains(shown, "pipe_ready\n\nStopping: ") {
		t.Errorf("the notice does not come next after the plan:\n%s", shown)
	}
}
