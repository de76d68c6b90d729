package connect

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps/agentbin"
)

// TestAgentOfARelease: the step that installs the agent reads the file, which a release has packed only.
func TestAgentOfARelease(t *testing.T) {
	p, err := agentbin.Pack(agentbin.Zstd, []byte("the agent"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path+p.Form, p.Data, 0o600); err != nil {
		t.Fatal(err)
	}
	agent := Agent(t.Context(), func(context.Context, string, string) (string, string, error) {
		return path, p.Digest, nil
	}, func(string) {})
	s, err := agent("linux", "amd64", "ssh")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(s.File); err != nil || string(b) != "the agent" || s.SHA256 != p.Digest {
		t.Errorf("%q, %s, %v", b, s.SHA256, err)
	}
}

// TestAgentThatTakesLong: it is said that an agent is built, and nothing of one that is at hand.
func TestAgentThatTakesLong(t *testing.T) {
	for takes, want := range map[time.Duration]string{
		time.Second: "",
		time.Minute: "Building the agent for windows/amd64 from source. The first time takes a minute or two.",
	} {
		synctest.Test(t, func(t *testing.T) {
			said := ""
			agent := Agent(t.Context(), func(context.Context, string, string) (string, string, error) {
				time.Sleep(takes)
				return "agent", "digest", nil
			}, func(text string) { said += text })
			if s, err := agent("windows", "amd64", "ssh"); err != nil || s.File != "agent" {
				t.Errorf("%+v, %v", s, err)
			}
			if said != want {
				t.Errorf("after %s it says %q, not %q", takes, said, want)
			}
		})
	}
}
