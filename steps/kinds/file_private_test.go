package kinds_test

import (
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// TestPrivateContentIsNotShown: a diff shows nothing that the host or the plan keeps private, and nothing that a
// plan kept private before.
func TestPrivateContentIsNotShown(t *testing.T) {
	const secret = "SUPERSECRETVALUE42"
	for _, os := range []string{"linux", "windows"} {
		path := "/srv/a.conf"
		if os == "windows" {
			path = `C:\srv\a.conf`
		}
		file := func(f kinds.File) []steps.Spec {
			f.Path = path
			return []steps.Spec{stepstest.Spec("file", "f", f)}
		}
		for name, c := range map[string]struct {
			prepare func(t *testing.T, h host.Host)
			file    kinds.File
			shown   string // what is shown of the content, "" = nothing
		}{
			"private on the host": {func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, path, "token of somebody: "+secret)
				stepstest.Must(t, h.SetAccess(t.Context(), path, host.AccessPrivate))
			}, kinds.File{Content: "a"}, ""},
			"ours, closed by its folder": {func(t *testing.T, h host.Host) {
				stepstest.Applied(t, h, nil, file(kinds.File{Content: "ours"}))
				stepstest.Put(t, h, path, "altered")
				stepstest.Must(t, h.SetAccess(t.Context(), path, host.AccessPrivate))
			}, kinds.File{Content: "ours"}, "altered"},
			"private in the plan": {func(t *testing.T, h host.Host) { stepstest.Put(t, h, path, secret) },
				kinds.File{Content: "a", Access: host.AccessPrivate}, ""},
			"sensitive before": {func(t *testing.T, h host.Host) {
				stepstest.Applied(t, h, nil, file(kinds.File{Content: secret, Sensitive: true}))
			}, kinds.File{Content: "a"}, ""},
			"public again": {func(t *testing.T, h host.Host) {
				stepstest.Applied(t, h, nil, file(kinds.File{Content: secret, Sensitive: true}))
				stepstest.Applied(t, h, nil, file(kinds.File{Content: "plain"}))
			}, kinds.File{Content: "a"}, "plain"},
			"a key in a public file": {func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, path, "before\npassword: "+secret+"\n")
			}, kinds.File{Content: "a"}, "before"},
			"only the key differs": {func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, path, "password: "+secret+"\n")
			}, kinds.File{Content: "password: other\n"}, ""},
		} {
			t.Run(os+"/"+name, func(t *testing.T) {
				h := stepstest.OpenHost(t, os)
				c.prepare(t, h)
				reply, err := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {}).Check(t.Context(),
					executor.Request{Node: "win-1", Steps: file(c.file)})
				stepstest.Must(t, err)
				change := reply.Results[0].Change
				if change.NoOp() {
					t.Fatal("no change is seen")
				}
				var diff *steps.Diff
				for i, d := range change.Diffs {
					if strings.Contains(d.Have+d.Want, secret) {
						t.Errorf("the diff shows the secret: %+v", d)
					}
					if d.Name == "content" {
						diff = &change.Diffs[i]
					}
				}
				if diff == nil || diff.Sensitive != (c.shown == "") || !strings.Contains(diff.Have, c.shown) {
					t.Errorf("the diff of the content is %+v, want %q in it", diff, c.shown)
				}
			})
		}
	}
}
