package connect

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

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
