package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// fuller is resumePlan with two more files.
const fuller = resumePlan + `
step "file" "more" {
  on      = node.win
  path    = "C:\\site\\more"
  content = "more"
}
step "file" "changed" {
  on      = node.win
  path    = "C:\\site\\changed"
  content = "ours"
}
`

// TestResumeRemoves: after the reboot the service removes what the plan no longer has. It does not ask again. It
// removes things that somebody changed only if the apply before the reboot had the flag for that.
func TestResumeRemoves(t *testing.T) {
	for name, prune := range map[string]bool{"changed stays": false, "--prune-changed": true} {
		t.Run(name, func(t *testing.T) {
			dir := planDir(t, fuller)
			var out bytes.Buffer
			if code := execute(t.Context(), &app{term: &ui.Term{Out: &out, Err: &out, In: strings.NewReader("")}},
				[]string{"apply", "--auto-approve", dir}); code != exitOK {
				t.Fatalf("exit code %d\n%s", code, out.String())
			}
			site := filepath.Join(dir, ".sandbox", "win-1", "C", "site")
			if err := errors.Join(os.WriteFile(filepath.Join(site, "changed"), []byte("theirs"), 0o644),
				os.WriteFile(filepath.Join(dir, "a.join.hcl"), []byte(resumePlan), 0o644)); err != nil {
				t.Fatal(err)
			}
			r := resumedIn(t, dir, &app{pruneChanged: prune})
			if err := r.Do(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, r.out.String())
			}
			for file, want := range map[string]bool{"more": false, "changed": !prune} {
				_, err := os.Stat(filepath.Join(site, file))
				if err != nil && !errors.Is(err, fs.ErrNotExist) || (err == nil) != want {
					t.Errorf("%s exists: %v, want %v (%v)\n%s", file, err == nil, want, err, r.out.String())
				}
			}
			if r.text("win-1") == "" {
				t.Error("a file that the plan has is gone")
			}
			r.over("finished on node win-1")
		})
	}
}
