package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"

	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

// secretForms match what a run mints: bootstrap tokens, tokens of service accounts, private keys. A text without
// the words beside one does not match it; they are found faster.
var secretForms = []struct {
	word string
	form *regexp.Regexp
}{
	{".", regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)},
	{"eyJ", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.`)},
	{"PRIVATE KEY", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)},
}

// noSecret checks that a text that is shown or stored contains no secret.
func (w *world) noSecret(what string, text []byte) {
	w.t.Helper()
	for _, f := range secretForms {
		if !bytes.Contains(text, []byte(f.word)) {
			continue
		}
		if at := f.form.FindIndex(text); at != nil {
			w.t.Errorf("%s contains a secret: ...%s...", what, text[max(0, at[0]-100):min(len(text), at[1]+20)])
		}
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
