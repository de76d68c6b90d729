package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asks has a script for each shell that prints the candidates for the unfinished last word of $LINE.
var asks = map[string][]string{
	"bash": {"--norc", "--noprofile", "-c", `source <(nodejoin completion bash)
read -ra COMP_WORDS <<<"$LINE"; [[ $LINE == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=$LINE; COMP_POINT=${#LINE}; COMP_TYPE=9
__start_nodejoin 2>&1; printf '%s\n' "${COMPREPLY[@]}"`},
	"fish": {"--no-config", "-c", `nodejoin completion fish | source; complete --do-complete "$LINE"`},
	"zsh": {"-f", "-c", `autoload -U compinit; compinit -u -D; source <(nodejoin completion zsh)
compadd() { local a; for a in "$@"; do print -r -- "$a"; done }
_describe() { print -rl -- $completions }
compstate=(); words=(${=LINE}); [[ $LINE == *" " ]] && words+=(""); CURRENT=$#words
_nodejoin 2>/dev/null`},
}

// TestShells: real shells complete node names, steps, flag values, variables and runs.
func TestShells(t *testing.T) {
	bin := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "nodejoin"))
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := copyExample(os.DirFS("../../examples/quickstart"), filepath.Join(dir, "p")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "p", "v.join.hcl"), []byte("variable \"size\" { default = 1 }\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for shell, args := range asks {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil && os.Getenv("NODEJOIN_REQUIRE") == "" {
				t.Skipf("no %s", shell)
			}
			if err != nil {
				t.Fatal(err)
			}
			for line, want := range map[string][]string{
				"nodejoin plan p --target win":          {"win-1", "win-2"},
				"nodejoin plan p --target win-1.kubele": {"win-1.kubelet", "win-1.kubelet_ready"},
				"nodejoin plan p --target node.win-":    {"node.win-1", "node.win-2"},
				"nodejoin plan p --display q":           {"quiet"},
				"nodejoin plan p --var s":               {"size="},
				"nodejoin status p --only dr":           {"drifted"},
				"nodejoin graph p --format h":           {"html"},
				"nodejoin pl":                           {"plan"},
			} {
				c := exec.Command(path, args...)
				c.Dir = dir
				c.Env = append(os.Environ(), "LINE="+line, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir)
				out, err := c.CombinedOutput()
				if err != nil {
					t.Logf("%s: %v", line, err)
				}
				for _, w := range want {
					if !strings.Contains("\n"+string(out), "\n"+w) {
						t.Errorf("%s: %q is not offered:\n%s", line, w, out)
					}
				}
				if strings.Contains(string(out), "not found") {
					t.Errorf("%s: %s", line, out)
				}
			}
		})
	}
}
