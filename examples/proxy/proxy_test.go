// Package proxy_test runs the plan of a host with settings as the command does.
package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/internal/exampletest"
	"nodejoin/plan"
	"nodejoin/plan/render"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

const password = "hunter2hunter2"

// joined is the plan applied once, with credentials in the proxy's URL.
func joined(t *testing.T, ctx context.Context) (*plan.Compiled, host.Host) {
	t.Helper()
	proxy := "http://user:" + password + "@proxy.example:3128"
	c := exampletest.Compile(t, exampletest.Workspace(t), map[string]string{"proxy": proxy})
	s := exampletest.Session(t, c)
	for id, change := range exampletest.Check(t, ctx, s) {
		noSecret(t, id, change)
	}
	exampletest.Apply(t, ctx, s)
	h, err := exampletest.Host(c.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	return c, h
}

func noSecret(t *testing.T, what string, v any) {
	t.Helper()
	if b, err := json.Marshal(v); err != nil || bytes.Contains(b, []byte(password)) {
		t.Errorf("%s shows the password (%v): %s", what, err, b)
	}
}

// settings are the specs that are not part of joining a cluster.
func settings(n plan.Node) (out []steps.Spec) {
	for _, s := range n.Steps {
		if s.Source != n.Source && slices.Contains([]string{"registry", "env", "file", "firewall_rule"}, s.Kind) {
			out = append(out, s)
		}
	}
	return out
}

func TestSettings(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, h := joined(t, ctx)

	for _, name := range []string{"containerd", "kubelet"} {
		s, err := h.Service(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(s.Environment, "\n")
		for _, want := range []string{"HTTP_PROXY=http://user:" + password + "@proxy.example:3128", "HTTPS_PROXY=http",
			"NO_PROXY=localhost,127.0.0.1,10.0.0.10,10.244.0.0/16,10.96.0.0/12,.svc,.cluster.local,win-1,192.0.2.11," +
				".corp.example"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s runs with\n%s\nwithout %s", name, text, want)
			}
		}
	}
	if v, err := h.MachineEnv(ctx, "https_proxy"); err != nil || !strings.Contains(v, password) {
		t.Errorf("the machine's HTTPS_PROXY: %q, %v", v, err)
	}
	if r, err := h.FirewallRule(ctx, "nodejoin-kubelet"); err != nil || r.Remote != "10.0.0.0/8,192.0.2.0/24" {
		t.Errorf("rule %+v, %v", r, err)
	}

	s := exampletest.Session(t, c)
	if again := exampletest.Check(t, ctx, s); len(again) > 0 {
		t.Errorf("the second check still finds %v", again)
	}
	if changed, mutations := exampletest.Apply(t, ctx, s); len(changed) > 0 || mutations > 0 {
		t.Errorf("the second apply changed %v with %d mutating calls", changed, mutations)
	}
}

// TestDrift: the check finds each changed setting and nothing else, and an apply fixes them.
func TestDrift(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, h := joined(t, ctx)
	list := settings(c.Nodes[0])
	if len(list) < 18 {
		t.Fatalf("only %d settings", len(list))
	}
	var want []string
	for _, spec := range list {
		var a struct {
			Key, Name, Path string
			Type            string
		}
		if err := json.Unmarshal(spec.Args.JSON(), &a); err != nil {
			t.Fatal(err)
		}
		var err error
		switch spec.Kind {
		case "registry":
			err = h.SetRegistryValue(ctx, a.Key, a.Name, host.RegistryValue{Type: "dword", Number: 77})
		case "env":
			err = h.SetMachineEnv(ctx, a.Name, "http://other:"+password+"@x")
		case "file":
			err = h.WriteFile(ctx, a.Path, strings.NewReader("edited"), host.WriteOptions{})
		case "firewall_rule":
			err = h.DeleteFirewallRule(ctx, a.Name)
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "win-1/"+spec.ID)
	}
	s := exampletest.Session(t, c)
	pending := exampletest.Check(t, ctx, s)
	slices.Sort(want)
	if ids := slices.Sorted(maps.Keys(pending)); !slices.Equal(ids, want) {
		t.Errorf("the check finds %v, want %v", ids, want)
	}
	noSecret(t, "drift", pending)
	exampletest.Apply(t, ctx, s)
	if again := exampletest.Check(t, ctx, exampletest.Session(t, c)); len(again) > 0 {
		t.Errorf("after fixing, the check still finds %v", again)
	}
}

// TestPrevious: the value that a setting replaces is kept, so that it can be restored.
func TestPrevious(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exampletest.Compile(t, exampletest.Workspace(t), nil)
	h, err := exampletest.Host(c.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	const key = `HKLM\SYSTEM\CurrentControlSet\Control\FileSystem`
	if err := h.SetRegistryValue(ctx, key, "LongPathsEnabled", host.RegistryValue{Type: "dword"}); err != nil {
		t.Fatal(err)
	}
	if err := h.SetMachineEnv(ctx, "HTTP_PROXY", "http://before:1"); err != nil {
		t.Fatal(err)
	}
	exampletest.Run(t, ctx, c)
	f, err := h.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := record.Load(ctx, h, f)
	if err != nil {
		t.Fatal(err)
	}
	for claimed, want := range map[record.Key]string{
		record.RegistryValueKey(key, "LongPathsEnabled"): `{"type":"dword"}`,
		record.EnvKey("", "HTTP_PROXY"):                  `"http://before:1"`,
	} {
		var have bytes.Buffer
		c, _ := rec.Lookup(claimed)
		if err := json.Compact(&have, c.Previous); err != nil || !c.Existed || have.String() != want {
			t.Errorf("%s: previous %s, want %s (%v)", claimed, have.String(), want, err)
		}
	}
	for _, claimed := range []record.Key{record.Env.Of("NO_PROXY"), record.File.Of(`C:\k\site.txt`),
		record.FirewallRule.Of("nodejoin-windows_exporter")} {
		if c, ok := rec.Lookup(claimed); !ok || c.Existed {
			t.Errorf("%s: claimed %v, %+v", claimed, ok, c)
		}
	}
}

// TestProxyChanges: a change of the proxy restarts the services that use it, and no others.
func TestProxyChanges(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := exampletest.Workspace(t)
	c := exampletest.Compile(t, dir, nil)
	exampletest.Run(t, ctx, c)
	c = exampletest.Compile(t, dir, map[string]string{"proxy": "http://other.example:3128"})
	pending := exampletest.Check(t, ctx, exampletest.Session(t, c))
	for _, id := range []string{"http_proxy", "https_proxy", "containerd", "kubelet"} {
		if _, ok := pending["win-1/"+id]; !ok {
			t.Errorf("%s does not change", id)
		}
	}
	for _, id := range []string{"no_proxy", "long_paths", "file_site"} {
		if change, ok := pending["win-1/"+id]; ok {
			t.Errorf("%s changes: %+v", id, change)
		}
	}
	if k := pending["win-1/kubelet"]; !strings.Contains(k.Reason, "environment") {
		t.Errorf("the kubelet's change: %+v", k)
	}
}

// TestRender: render shows the settings but no secret.
func TestRender(t *testing.T) {
	dir := exampletest.Workspace(t)
	c := exampletest.Compile(t, dir, map[string]string{"proxy": "http://user:" + password + "@proxy.example:3128"})
	files, err := render.Nodes(c)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, f := range files {
		shown[f.Path] = string(f.Data)
		if strings.Contains(string(f.Data), password) {
			t.Errorf("%s shows the password", f.Path)
		}
	}
	for path, want := range map[string]string{
		"win-1/environment.json":         `"NO_PROXY"`,
		"win-1/services/containerd.json": `HTTPS_PROXY=(sensitive)`,
		"win-1/registry.json":            `PagingFiles`,
		"win-1/firewall.json":            `nodejoin-windows_exporter`,
		"win-1/files/C/k/site.txt":       "rack 7\n",
	} {
		if !strings.Contains(shown[path], want) {
			t.Errorf("%s has no %s:\n%s", path, want, shown[path])
		}
	}
	if entries, err := os.ReadDir(filepath.Join(dir, ".sandbox")); err == nil {
		t.Errorf("rendering made %v", entries)
	}
}
