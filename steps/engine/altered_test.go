package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

// alteration changes one thing of a joined machine.
type alteration struct {
	name  string
	apply func(ctx context.Context, h *sandbox.Host) error
}

// others are parts of alterations' names: what belongs to a node's programs or to people, so that no plan checks it.
var others = []struct{ part, why string }{
	{"/var/log/", "logs: the programs' own"},
	{"/kubelet/pki/", "certificates of the kubelet, which asks for new ones itself"},
	{"/ProgramData/nodejoin/", "what nodejoin keeps; it is written again when it is next needed"},
	{"/var/lib/nodejoin/", "what nodejoin keeps; it is written again when it is next needed"},
	{"/var/lib/cni/networks/", "reservations of CNI plugins, but for that of kube-proxy"},
}

// TestAltered changes one thing of a joined machine at a time. The next plan finds it, and one apply fixes it within
// seconds. Any NODEJOIN_PAIRS tests all alterations, otherwise a sample.
func TestAltered(t *testing.T) {
	for osName, names := range map[string][]string{
		"windows": {"csi", "exporter3", "registry", "crictl", "motd2", "objects a", "placeholder", "inherits"},
		"linux":   {"registry", "motd2", "objects a", "inherits"},
	} {
		t.Run(osName, func(t *testing.T) {
			d := planOf(osName, names...)
			for i, p := range d.parts { // one step of each kind
				if p.name == "" && len(dimensions(osName)[p.dimension]) > 1 && slices.Contains(alteredToo,
					p.dimension) {
					d.parts[i] = dimensions(osName)[p.dimension][1]
					d.parts[i].dimension = p.dimension
				}
			}
			w := newWorld(t)
			w.bound = 30 * time.Second
			w.write(d)
			open(t, w) // creates the machine
			before := snapshot(t, w.sandboxDir())
			if err := w.applied(d); err != nil {
				t.Fatal(err)
			}
			all := alterations(t, osName, before, snapshot(t, w.sandboxDir()))
			_, seed := pairs(t)
			rnd := rand.New(rand.NewPCG(seed, 2))
			t.Logf("seed %d, %d alterations", seed, len(all))
			every := 12
			if os.Getenv("NODEJOIN_PAIRS") != "" {
				every = 1
			}
			for _, a := range all {
				if strings.Contains(a.name, "access") || rnd.IntN(every) == 0 {
					t.Run(a.name, func(t *testing.T) { altered(t, w, d, a) })
				}
			}
		})
	}
}

var errInherited = errors.New("inherited")

// alteredToo are further dimensions that the machine has.
var alteredToo = []string{"env", "sysctl", "module", "directory", "rule", "registry", "ports", "allow",
	"service", "cas",
	"dynamic", "reserved", "update", "defender", "paths", "smb", "programs", "conf", "hns", "proxy", "vip"}

func open(t *testing.T, w *world) *sandbox.Host {
	t.Helper()
	n := w.compile().Nodes[0]
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: n.Connection.Sandbox.Path, OS: n.OS,
		Build: n.Connection.Sandbox.Build, IP: n.Connection.Sandbox.IP, IP6: n.Connection.Sandbox.IP6,
		Hostname: "win-1",
		DataDir:  n.DataDir, ClusterDir: n.Connection.Sandbox.ClusterDir})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// altered makes an alteration in a copy of the world.
func altered(t *testing.T, w *world, d drawn, a alteration) {
	dir := filepath.Join(t.TempDir(), "w")
	if err := copyTree(dir, w.dir); err != nil {
		t.Fatal(err)
	}
	c := w.copyOf(t, dir)
	c.bound = 30 * time.Second
	switch err := a.apply(t.Context(), open(t, c)); {
	case errors.Is(err, errInherited):
		t.Skip("it has the access of its folder, which is private")
	case errors.Is(err, host.ErrBusy):
		t.Skip("a program that runs cannot be changed")
	case err != nil:
		t.Fatal(err)
	}
	r := c.check()
	seen := r.Hosts[0].Err != nil || len(r.Hosts[0].Removals.Removing()) > 0
	for _, s := range r.Hosts[0].Steps {
		seen = seen || s.Result.Err != nil || !s.Result.Change.NoOp()
	}
	if !seen {
		for _, o := range others {
			if strings.Contains(a.name, o.part) {
				t.Skip(o.why)
			}
		}
		t.Fatal("the plan does not see it")
	}
	if strings.Contains(a.name, "record.json") {
		t.Skip("nodejoin refuses a record that others may have written, and says so")
	}
	if err := c.applied(d); err != nil {
		t.Fatalf("the apply after it: %v", err)
	}
	if err := c.quiet(); err != nil {
		t.Error(err)
	}
}

// alterations returns a change of each file that the join made, and of everything else that it made.
func alterations(t *testing.T, osName string, before, after map[string]string) (out []alteration) {
	add := func(name string, f func(ctx context.Context, h *sandbox.Host) error) {
		out = append(out, alteration{strings.ReplaceAll(name, `\`, "/"), f})
	}
	for _, rel := range slices.Sorted(maps.Keys(after)) {
		if strings.HasPrefix(rel, "state: ") || before[rel] == after[rel] || after[rel] == "folder" {
			continue
		}
		path := "/" + filepath.ToSlash(rel)
		if osName == "windows" {
			path = `C:` + strings.ReplaceAll(strings.TrimPrefix(path, "/C"), "/", `\`)
		}
		add("file "+path+" deleted", func(ctx context.Context, h *sandbox.Host) error {
			return h.Remove(ctx,
				path)
		})
		add("file "+path+" changed", func(ctx context.Context, h *sandbox.Host) error {
			fi, err := h.Stat(ctx, path)
			if err != nil {
				return err
			}
			return h.WriteFile(ctx, path, strings.NewReader("altered"), host.WriteOptions{Access: fi.Access})
		})
	}
	state := func(part string, v any) {
		text, ok := after["state: "+part]
		if !ok {
			return
		}
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatal(err)
		}
	}
	was := func(part string) map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		_ = json.Unmarshal([]byte(before["state: "+part]), &m) // there is none
		return m
	}
	var access map[string]host.Access
	state("access", &access)
	for key, a := range access {
		if _, there := was("access")[key]; there || a != host.AccessPrivate {
			continue
		}
		path := "/" + key
		if osName == "windows" {
			path = `c:` + strings.ReplaceAll(strings.TrimPrefix(key, "c"), "/", `\`)
		}
		add("access of "+path+" loosened", func(ctx context.Context, h *sandbox.Host) error {
			err := h.SetAccess(ctx, path, host.AccessDefault)
			if fi, fail := h.Stat(ctx, path); err == nil && fail == nil && fi.Access == host.AccessPrivate {
				return errInherited
			}
			return err
		})
	}
	var services map[string]struct{ host.Service }
	state("services", &services)
	for name := range services {
		if _, there := was("services")[name]; !there {
			out = append(out, serviceAlterations(name)...)
		}
	}
	var rules map[string]host.FirewallRule
	state("firewall", &rules)
	for _, rule := range rules {
		add("rule "+rule.Name+" deleted", func(ctx context.Context, h *sandbox.Host) error {
			return h.DeleteFirewallRule(ctx, rule.Name)
		})
		for what, change := range map[string]func(r *host.FirewallRule){
			"off":    func(r *host.FirewallRule) { r.Enabled = false },
			"port":   func(r *host.FirewallRule) { r.Ports = "1" },
			"remote": func(r *host.FirewallRule) { r.Remote = "10.99.0.1" },
			"block":  func(r *host.FirewallRule) { r.Action = "block" },
		} {
			add("rule "+rule.Name+" "+what, func(ctx context.Context, h *sandbox.Host) error {
				other := rule
				change(&other)
				return h.PutFirewallRule(ctx, other)
			})
		}
	}
	var networks map[string]host.HNSNetwork
	state("networks", &networks)
	for _, n := range networks {
		add("network "+n.Name+" deleted", func(ctx context.Context,
			h *sandbox.Host) error {
			return h.DeleteHNSNetwork(ctx, n.Name)
		})
	}
	var env map[string]string
	state("env", &env)
	for name := range env {
		add("variable "+name+" deleted", func(ctx context.Context,
			h *sandbox.Host) error {
			return h.UnsetMachineEnv(ctx, name)
		})
		add("variable "+name+" changed", func(ctx context.Context,
			h *sandbox.Host) error {
			return h.SetMachineEnv(ctx, name, "other")
		})
	}
	var registry, factory map[string]map[string]host.RegistryValue
	state("registry", &registry)
	_ = json.Unmarshal([]byte(before["state: registry"]), &factory) // Linux has none
	for key, values := range registry {
		for name, v := range values {
			if was, there := factory[key][name]; there && fmt.Sprint(was) == fmt.Sprint(v) {
				continue
			}
			add("value "+key+" "+name+" deleted", func(ctx context.Context, h *sandbox.Host) error {
				return h.DeleteRegistryValue(ctx, key, name)
			})
			add("value "+key+" "+name+" changed", func(ctx context.Context, h *sandbox.Host) error {
				return h.SetRegistryValue(ctx, key, name, host.RegistryValue{Type: "string", String: "other"})
			})
		}
	}
	var sysctls map[string]string
	state("sysctls", &sysctls)
	for name := range sysctls {
		add("sysctl "+name, func(ctx context.Context, h *sandbox.Host) error { return h.SetSysctl(ctx, name, "0") })
	}
	slices.SortFunc(out, func(a, b alteration) int { return strings.Compare(a.name, b.name) })
	return out
}

func serviceAlterations(name string) []alteration {
	out := []alteration{
		{"service " + name + " stopped", func(ctx context.Context,
			h *sandbox.Host) error {
			return stopWithDependents(ctx, h, name)
		}},
		{"service " + name + " deleted", func(ctx context.Context, h *sandbox.Host) error {
			return deleteWithDependents(ctx, h, name)
		}},
	}
	for what, change := range map[string]func(c *host.ServiceConfig){
		"command":      func(c *host.ServiceConfig) { c.Command = append(slices.Clone(c.Command), "--other") },
		"start":        func(c *host.ServiceConfig) { c.Start = host.StartManual },
		"description":  func(c *host.ServiceConfig) { c.Description = "other" + c.Description },
		"dependencies": func(c *host.ServiceConfig) { c.DependsOn = append(slices.Clone(c.DependsOn), "theirs") },
		"environment": func(c *host.ServiceConfig) {
			c.Environment = append(slices.Clone(c.Environment),
				"OTHER=x")
		},
	} {
		out = append(out, alteration{"service " + name + " " + what, func(ctx context.Context,
			h *sandbox.Host) error {
			s, err := h.Service(ctx, name)
			if err != nil {
				return err
			}
			if what == "dependencies" { // one that is there
				if err := h.CreateService(ctx, host.ServiceConfig{Name: "theirs", Command: s.Command[:1],
					Start: host.StartManual}); err != nil && !errors.Is(err, fs.ErrExist) {
					return err
				}
			}
			change(&s.ServiceConfig)
			return h.UpdateService(ctx, s.ServiceConfig)
		}})
	}
	return out
}

func deleteWithDependents(ctx context.Context, h *sandbox.Host, name string) error {
	all, err := h.Dependents(ctx, name)
	for _, d := range all {
		if _, gone := h.Service(ctx, d); gone == nil {
			err = errors.Join(err, deleteWithDependents(ctx, h, d))
		}
	}
	return errors.Join(err, h.StopService(ctx, name), h.DeleteService(ctx, name))
}

func stopWithDependents(ctx context.Context, h *sandbox.Host, name string) error {
	all, err := h.Dependents(ctx, name)
	for _, d := range all {
		err = errors.Join(err, stopWithDependents(ctx, h, d))
	}
	return errors.Join(err, h.StopService(ctx, name))
}
