package engine_test

import (
	"os"
	"path/filepath"
	"regexp"

	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

// secretForms match what a run mints: bootstrap tokens, tokens of service accounts, private keys.
var secretForms = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b|` +
	`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// noSecret checks that a text that is shown or stored contains no secret.
func (w *world) noSecret(what string, text []byte) {
	w.t.Helper()
	if at := secretForms.FindIndex(text); at != nil {
		w.t.Errorf("%s: a secret is in it: ...%s...", what, text[max(0, at[0]-100):min(len(text), at[1]+20)])
	}
}

// noSecretTold checks an event; every display and the history are made from events.
func (w *world) noSecretTold(e event.Event) {
	w.t.Helper()
	text, err := event.Encode(e)
	if err != nil {
		w.t.Error(err)
	}
	w.noSecret("an event", text)
}

// noSecretKept checks the errors of a run and the notes on the machines.
func (w *world) noSecretKept(c *plan.Compiled, sum *engine.Summary) {
	w.t.Helper()
	for _, h := range sum.Hosts {
		if h.Err != nil {
			w.noSecret(h.Node+": the error", []byte(h.Err.Error()))
		}
	}
	for _, n := range c.Nodes {
		// the pattern is well-formed
		notes, _ := filepath.Glob(filepath.Join(n.Connection.Sandbox.Path, "C", "ProgramData", "nodejoin", "*.json"))
		for _, name := range notes {
			text, err := os.ReadFile(name)
			if err != nil {
				w.t.Error(err)
			}
			w.noSecret(name, text)
		}
	}
}
