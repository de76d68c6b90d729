package acceptance_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// logLine is what containerd logs beside what it shows.
var logLine = regexp.MustCompile(`(?m)^time="[^\n]*\n`)

// containerd17: the file of a plan with containerd 1.x is taken by one of that line, too,
// which keeps each value of it, and refuses a schema that it does not know.
func (c *consumers) containerd17(ctx context.Context, a *artifact) {
	dump := func(content string) (string, error) {
		return c.run(ctx, c.program("containerd-1.7.exe"), "--config", c.put(c.dir+`\config.toml`, content),
			"config", "dump")
	}
	out, err := dump(a.content)
	m := pauseImage.FindStringSubmatch(a.content)
	if err != nil || m == nil || !strings.Contains(out, m[1]) || !strings.Contains(out, "runhcs-wcow-process") {
		c.t.Errorf("%s: containerd 1.7: %v; its pause image or runtime is not in what containerd makes of the file:\n%s\n%s",
			a, err, a.content, tail(out))
	}
	c.wantKept17(a, out)
	if out, err := dump(strings.Replace(a.content, "version = 2", "version = 3", 1)); err == nil {
		c.t.Errorf("containerd 1.7 takes a file of schema 3:\n%s", tail(out))
	}
}

// wantKept17: each value of the file is in what containerd shows of its configuration.
func (c *consumers) wantKept17(a *artifact, out string) {
	var have, want map[string]any
	if err := toml.Unmarshal([]byte(a.content), &want); err != nil {
		c.t.Errorf("%s: %v", a, err)
		return
	}
	if err := toml.Unmarshal([]byte(logLine.ReplaceAllString(out, "")), &have); err != nil {
		c.t.Errorf("%s: what containerd 1.7 shows: %v\n%s", a, err, tail(out))
		return
	}
	var differ func(path string, want, have any)
	differ = func(path string, want, have any) {
		w, isTable := want.(map[string]any)
		h, _ := have.(map[string]any)
		if !isTable {
			if fmt.Sprint(want) != fmt.Sprint(have) {
				c.t.Errorf("%s: containerd 1.7 makes %v of %s = %v", a, have, path, want)
			}
			return
		}
		for _, key := range slices.Sorted(maps.Keys(w)) {
			differ(path+"."+key, w[key], h[key])
		}
	}
	differ("", want, have)
}
