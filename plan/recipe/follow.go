package recipe

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// followInterval is the time between two looks at the source, unless the plan says otherwise.
const followInterval = 5 * time.Minute

func (b *build) followFile() string { return host.Join(b.in.OS, b.data(), "follow.json") }

// followKube is the kubeconfig of the rounds.
func (b *build) followKube() string {
	if b.in.OS == "linux" {
		return linFollowKube
	}
	return winFollowKube
}

// nodejoin is the program of the rounds.
func (b *build) nodejoin() string {
	if b.in.OS == "linux" {
		return linBin + "/nodejoin"
	}
	return host.Join("windows", b.dataDir(), `bin\nodejoin.exe`)
}

// follow adds what the node follows its plan with, and returns the ids of the steps. Its account is one of components.
func (b *build) follow() []string {
	f := b.in.Settings.Follow
	if f == nil {
		return nil
	}
	src := f.Program
	if !f.given() {
		src = b.artifact(SelfArtifact)
	}
	b.add("follow_program", "binary", "nodejoin", &kinds.Binary{Source: src, Path: b.nodejoin(), Apart: true},
		"require", "data_dir").Retries = downloadRetries(src)
	trust, ids := b.followTrust(f)
	text, err := json.MarshalIndent(struct {
		Version int    `json:"version"`
		Managed bool   `json:"managed"`
		Node    string `json:"node"`
		Plan    string `json:"plan"`
		Source  string `json:"source"`
		followTrust
		Kubeconfig string            `json:"kubeconfig"`
		Windows    []string          `json:"windows,omitempty"`
		Jitter     string            `json:"jitter,omitempty"`
		Values     map[string]string `json:"values,omitempty"`
	}{1, true, b.in.Node, f.Plan, f.Source, trust, b.followKube(), f.Windows, f.Jitter, f.Values}, "", "  ")
	b.fail(err)
	// The name may be a reference, which is not one any more once it is escaped.
	content := strings.Replace(string(text), `"node": "\u0000`+strings.Trim(b.in.Node, "\x00")+`\u0000"`,
		`"node": "`+b.in.Node+`"`, 1)
	b.add("follow_file", "file", "Which plan the node follows", &kinds.File{Path: b.followFile(),
		Access: host.AccessPrivate, Content: content + "\n", Sensitive: f.Sensitive}, "data_dir")
	return append(ids, "follow_program", "follow_file")
}

// follows is what nodejoin-node starts; nil = nothing.
func (b *build) follows(log string) *steps.Follow {
	f := b.in.Settings.Follow
	if f == nil {
		return nil
	}
	return &steps.Follow{Program: b.nodejoin(), File: b.followFile(), Log: log,
		Interval: cmp.Or(f.Interval, followInterval)}
}

// followed are the files that nodejoin writes when it follows a plan (cmd/nodejoin/internal/pull).
func (b *build) followed() (out []string) {
	if b.in.Settings.Follow != nil {
		for _, ending := range []string{".state", ".lock", ".work"} {
			out = append(out, b.followFile()+ending)
		}
	}
	return out
}
