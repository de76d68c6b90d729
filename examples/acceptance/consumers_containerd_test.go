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

var (
	// pauseImage matches a value that containerd has only from its file.
	pauseImage = regexp.MustCompile(`'([^']*pause[^']*)'`)
	// unknownKey matches what containerd logs about a key that a plugin does not have.
	unknownKey = regexp.MustCompile(`Ignoring unknown key in TOML for plugin.* key="([^"]*)"`)
	// migrated is what it logs about a file with an older schema.
	migrated = "Configuration migrated from version"
)

// containerd checks that containerd reads its file, of its own schema or an older one, and shows the values of
// it.
func (c *consumers) containerd(ctx context.Context, a *artifact) {
	run := func(content string) (out string, unknown []string) {
		out, err := c.run(ctx, c.program("containerd.exe"), "--config", c.put(c.dir+`\config.toml`, content),
			"config", "dump")
		if err != nil {
			c.t.Errorf("%s: %v", a, err)
		}
		for _, m := range unknownKey.FindAllStringSubmatch(out, -1) {
			unknown = append(unknown, m[1])
		}
		return out, unknown
	}
	var want []string
	if strings.Contains(a.of[0], "containerd 2.0.") {
		// Only this version has the key; later ones have bin_dirs, also in schema 3 (containerd
		// docs/cri/config.md).
		want = []string{"cni bin_dir"}
	}
	out, unknown := run(a.content)
	m := pauseImage.FindStringSubmatch(a.content)
	if m == nil || !strings.Contains(out, m[1]) || !slices.Equal(unknown, want) {
		c.t.Errorf("%s: containerd does not know the keys %q, want %q, or its dump of the "+
			"file lacks the pause image:\n%s\n%s", a, unknown, want, a.content, tail(out))
	}
	// The containerd that is built here is the newest, whose own schema needs no migration.
	if own := strings.Contains(a.content, "version = 4"); strings.Contains(out, migrated) == own ||
		!strings.Contains(out, `\\.\pipe\containerd-containerd.ttrpc`) {
		c.t.Errorf("%s: containerd migrates its own schema, or no older one, or the pipe is not that of the file:\n%s\n%s",
			a, a.content, tail(out))
	}
	if slices.ContainsFunc(a.of, func(of string) bool { return strings.Contains(of, "containerd 1.") }) {
		c.containerd17(ctx, a)
	}
	for _, broken := range []string{a.content + "\n[plugins\n", "version = 99\n"} {
		if out, err := c.run(ctx, c.program("containerd.exe"), "--config", c.put(c.dir+`\config.toml`, broken), "config",
			"dump"); err == nil {
			c.t.Errorf("containerd accepted an invalid file:\n%s", tail(out))
		}
	}
}

// logLine matches a log line in the output of containerd.
var logLine = regexp.MustCompile(`(?m)^time="[^\n]*\n`)

// containerd17: containerd 1.7 accepts the file of a plan with containerd 1.x and keeps each of its values, and
// it refuses a schema that it does not know.
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
		c.t.Errorf("containerd 1.7 accepted a file of schema 3:\n%s", tail(out))
	}
}

// wantKept17: containerd shows each value of the file in its configuration.
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

// runtimeConfig is what a plan adds to containerd's file, for each schema.
var runtimeConfig = map[string]string{
	"containerd 1.7.28": `{
    oom_score = -5
    plugins = { "io.containerd.grpc.v1.cri" = { max_concurrent_downloads = 7, containerd = { runtimes = {
      gpu = { runtime_type = "io.containerd.runhcs.v1" } } } } }
  }`,
	"containerd 2.4.2": `{
    oom_score = -5
    plugins = {
      "io.containerd.cri.v1.images"  = { max_concurrent_downloads = 7 }
      "io.containerd.cri.v1.runtime" = { containerd = { runtimes = {
        gpu = { runtime_type = "io.containerd.runhcs.v1" } } } }
    }
  }`,
}

// configured: containerd accepts its file with what the argument config of a plan adds, knows all its keys and keeps
// its values, also beside those of nodejoin.
func (c *consumers) configured(ctx context.Context) {
	combinations, plan := matrix(c.t)
	for _, runtime := range slices.Sorted(maps.Keys(runtimeConfig)) {
		own := runtimeConfig[runtime]
		i := slices.IndexFunc(combinations, func(s string) bool { return strings.Contains(s, ", "+runtime+", ") })
		if i < 0 {
			c.t.Errorf("no combination has %s", runtime)
			continue
		}
		const block = `runtime "$RUNTIME" { version = "$RUNTIME_VERSION" }`
		with := strings.Replace(plan, block,
			"runtime \"$RUNTIME\" {\n  version = \"$RUNTIME_VERSION\"\n  config = "+own+"\n}", 1)
		if with == plan {
			c.t.Fatalf("the plan of the matrix has no %s", block)
		}
		content := rendered(ctx, c.t, with, combinations[i])[containerdFile]
		program := "containerd.exe"
		if strings.HasPrefix(runtime, "containerd 1.") {
			program = "containerd-1.7.exe"
		}
		out, err := c.run(ctx, c.program(program), "--config", c.put(c.dir+`\config.toml`, content), "config", "dump")
		m := pauseImage.FindStringSubmatch(content)
		if err != nil || m == nil || unknownKey.MatchString(out) || !strings.Contains(out, m[1]) {
			c.t.Errorf("%s: %v; unknown keys %q; or the pause image is lost:\n%s\n%s", runtime, err,
				unknownKey.FindAllString(out, -1), content, tail(out))
		}
		for _, want := range []string{"oom_score = -5", "max_concurrent_downloads = 7", "runtimes.gpu]"} {
			if !strings.Contains(out, want) {
				c.t.Errorf("%s: its configuration lacks %q:\n%s", runtime, want, tail(out))
			}
		}
	}
}
