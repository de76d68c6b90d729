package engine_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// altering lists the alterations of what a join has made.
type altering struct {
	t             *testing.T
	os            string
	before, after map[string]string // snapshots
	out           []alteration
}

// all returns changes of each file and folder that the join made, and of everything else that it made.
func (a *altering) all() []alteration {
	a.files()
	a.access()
	a.writable()
	a.services()
	a.rules()
	a.networks()
	a.variables()
	a.registry()
	a.kernel()
	a.machine()
	a.node()
	slices.SortFunc(a.out, func(a, b alteration) int { return strings.Compare(a.name, b.name) })
	return a.out
}

func (a *altering) add(name string, f func(ctx context.Context, m joinedMachine) error) {
	a.out = append(a.out, alteration{strings.ReplaceAll(name, `\`, "/"), f})
}

// state reads a part of the machine's state that is not a file, as it is and as it was before the join.
func state[T any](a *altering, part string) (now, was T) {
	a.t.Helper()
	for text, v := range map[string]*T{a.after["state: "+part]: &now, a.before["state: "+part]: &was} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), v); err != nil {
			a.t.Fatal(err)
		}
	}
	return now, was
}

func (a *altering) path(rel string) string {
	path := "/" + filepath.ToSlash(rel)
	if a.os == "windows" {
		return path[1:2] + ":" + strings.ReplaceAll(path[2:], "/", `\`)
	}
	return path
}

func (a *altering) files() {
	for _, rel := range slices.Sorted(maps.Keys(a.after)) {
		if strings.HasPrefix(rel, "state: ") || a.before[rel] == a.after[rel] || rel == "C" {
			continue
		}
		path := a.path(rel)
		if a.after[rel] == "folder" {
			a.add("folder "+path+" deleted", func(ctx context.Context, m joinedMachine) error {
				return m.unused(ctx, func() error { return m.removeAll(ctx, path) })
			})
			continue
		}
		a.add("file "+path+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.unused(ctx, func() error { return m.Remove(ctx, path) })
		})
		a.add("file "+path+" changed", func(ctx context.Context, m joinedMachine) error {
			return m.unused(ctx, func() error {
				fi, err := m.Stat(ctx, path)
				if err != nil {
					return err
				}
				return m.WriteFile(ctx, path, strings.NewReader("altered"), host.WriteOptions{Access: fi.Access})
			})
		})
	}
}

// unused does what cannot be done while programs run that are in the way: their services are stopped for it.
func (m joinedMachine) unused(ctx context.Context, f func() error) error {
	err := f()
	if !errors.Is(err, host.ErrBusy) {
		return err
	}
	for _, name := range m.services {
		if err := m.stop(ctx, name); err != nil {
			return err
		}
	}
	return f()
}

func (m joinedMachine) removeAll(ctx context.Context, path string) error {
	list, err := m.List(ctx, path)
	if err != nil {
		return err
	}
	for _, fi := range list {
		sep := "/"
		if strings.Contains(path, `\`) {
			sep = `\`
		}
		below := path + sep + fi.Name
		if fi.Dir {
			err = errors.Join(err, m.removeAll(ctx, below))
		} else {
			err = errors.Join(err, m.Remove(ctx, below))
		}
	}
	return errors.Join(err, m.Remove(ctx, path))
}

func (a *altering) access() {
	now, was := state[map[string]host.Access](a, "access")
	for key, access := range now {
		if _, there := was[key]; there || access == host.AccessDefault {
			continue
		}
		path := a.path(key)
		a.add("access of "+path+" loosened", func(ctx context.Context, m joinedMachine) error {
			err := m.SetAccess(ctx, path, host.AccessDefault)
			if fi, fail := m.Stat(ctx, path); err == nil && fail == nil && fi.Access == access {
				return errInherited
			}
			return err
		})
	}
}

// writable lets everybody write files of Linux that are open to be read, and folders of programs and of CNI.
func (a *altering) writable() {
	if a.os == "windows" {
		return
	}
	access, _ := state[map[string]host.Access](a, "access")
	for _, rel := range slices.Sorted(maps.Keys(a.after)) {
		if strings.HasPrefix(rel, "state: ") || a.before[rel] == a.after[rel] || access[rel] == host.AccessPrivate {
			continue
		}
		path := a.path(rel)
		if a.after[rel] == "folder" && !slices.Contains([]string{"/opt/cni/bin", "/etc/cni/net.d"}, path) {
			continue
		}
		a.add("everybody may write "+path, func(_ context.Context, m joinedMachine) error {
			return os.Chmod(filepath.Join(m.dir, rel), 0o777)
		})
	}
}

func (a *altering) madeServices() []string {
	now, was := state[map[string]struct{ host.Service }](a, "services")
	maps.DeleteFunc(now, func(name string, _ struct{ host.Service }) bool {
		_, there := was[name]
		return there
	})
	return slices.Sorted(maps.Keys(now))
}

// theirService is one of others, for services of ours to depend on.
const theirService = "theirs"

func (a *altering) services() {
	for _, name := range a.madeServices() {
		a.add("service "+name+" stopped", func(ctx context.Context, m joinedMachine) error {
			return m.stop(ctx, name)
		})
		a.add("service "+name+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.delete(ctx, name)
		})
		for what, change := range map[string]func(c *host.ServiceConfig){
			"command":         func(c *host.ServiceConfig) { c.Command = append(slices.Clone(c.Command), "--other") },
			"start":           func(c *host.ServiceConfig) { c.Start = host.StartManual },
			"disabled":        func(c *host.ServiceConfig) { c.Start = host.StartDisabled },
			"display name":    func(c *host.ServiceConfig) { c.DisplayName = "other " + c.DisplayName },
			"description":     func(c *host.ServiceConfig) { c.Description = "other" + c.Description },
			"no dependencies": func(c *host.ServiceConfig) { c.DependsOn = nil },
			"dependencies": func(c *host.ServiceConfig) {
				c.DependsOn = append(slices.Clone(c.DependsOn), theirService)
			},
			"environment": func(c *host.ServiceConfig) {
				c.Environment = append(slices.Clone(c.Environment), "OTHER=x")
			},
			"no environment": func(c *host.ServiceConfig) { c.Environment = nil },
			"no recovery":    func(c *host.ServiceConfig) { c.Recovery, c.RecoveryReset = nil, 0 },
			"recovery": func(c *host.ServiceConfig) {
				c.Recovery = []host.RecoveryAction{{Action: "restart", Delay: 77 * time.Second}}
			},
			"recovery reset": func(c *host.ServiceConfig) {
				if len(c.Recovery) > 0 { // else it has no effect
					c.RecoveryReset += 7
				}
			},
		} {
			a.add("service "+name+" "+what, func(ctx context.Context, m joinedMachine) error {
				return m.reconfigure(ctx, name, what == "dependencies", change)
			})
		}
	}
}

func (m joinedMachine) reconfigure(ctx context.Context, name string, theirs bool,
	change func(*host.ServiceConfig)) error {
	s, err := m.Service(ctx, name)
	if err != nil {
		return err
	}
	if theirs { // a service to depend on that is there
		if err := m.CreateService(ctx, host.ServiceConfig{Name: theirService, Command: s.Command[:1],
			Start: host.StartManual}); err != nil {
			return err
		}
	}
	was := fmt.Sprint(s.ServiceConfig)
	change(&s.ServiceConfig)
	if fmt.Sprint(s.ServiceConfig) == was {
		return errUnchanged
	}
	return m.UpdateService(ctx, s.ServiceConfig)
}

// delete deletes a service with those that depend on it.
func (m joinedMachine) delete(ctx context.Context, name string) error {
	all, err := m.Dependents(ctx, name)
	for _, d := range all {
		if _, gone := m.Service(ctx, d); gone == nil {
			err = errors.Join(err, m.delete(ctx, d))
		}
	}
	return errors.Join(err, m.StopService(ctx, name), m.DeleteService(ctx, name))
}

// stop stops a service with those that depend on it.
func (m joinedMachine) stop(ctx context.Context, name string) error {
	all, err := m.Dependents(ctx, name)
	for _, d := range all {
		err = errors.Join(err, m.stop(ctx, d))
	}
	return errors.Join(err, m.StopService(ctx, name))
}

func (a *altering) rules() {
	now, was := state[map[string]host.FirewallRule](a, "firewall")
	for key, rule := range now {
		if _, there := was[key]; there {
			continue
		}
		a.add("rule "+rule.Name+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.DeleteFirewallRule(ctx, rule.Name)
		})
		for what, change := range map[string]func(r *host.FirewallRule){
			"off":    func(r *host.FirewallRule) { r.Enabled = false },
			"port":   func(r *host.FirewallRule) { r.Ports = "1" },
			"remote": func(r *host.FirewallRule) { r.Remote = "10.99.0.1" },
			"block":  func(r *host.FirewallRule) { r.Action = "block" },
			"out":    func(r *host.FirewallRule) { r.Direction = "out" },
			"protocol": func(r *host.FirewallRule) {
				r.Protocol = map[string]string{"tcp": "udp", "udp": "tcp"}[r.Protocol]
			},
			"program":      func(r *host.FirewallRule) { r.Program = `C:\other.exe` },
			"display name": func(r *host.FirewallRule) { r.DisplayName = "Other" },
			"description":  func(r *host.FirewallRule) { r.Description = "Other" },
			"profiles":     func(r *host.FirewallRule) { r.Limits.Profiles = "domain" },
			"service":      func(r *host.FirewallRule) { r.Limits.Service = "other" },
			"remote ports": func(r *host.FirewallRule) { r.Limits.RemotePorts = "1" },
		} {
			a.add("rule "+rule.Name+" "+what, func(ctx context.Context, m joinedMachine) error {
				other := rule
				change(&other)
				return m.PutFirewallRule(ctx, other)
			})
		}
	}
}

func (a *altering) networks() {
	now, was := state[map[string]host.HNSNetwork](a, "networks")
	for key, n := range now {
		if _, there := was[key]; there {
			continue
		}
		a.add("network "+n.Name+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.DeleteHNSNetwork(ctx, n.Name)
		})
		for what, change := range map[string]func(n *host.HNSNetwork){
			"of another type": func(n *host.HNSNetwork) {
				n.Type = map[string]string{"Overlay": "L2Bridge", "L2Bridge": "Overlay"}[n.Type]
			},
			"with another VNI":    func(n *host.HNSNetwork) { n.VNI += 7 },
			"with another subnet": func(n *host.HNSNetwork) { n.Subnets = []string{"10.77.0.0/24"} },
		} {
			a.add("network "+n.Name+" "+what, func(ctx context.Context, m joinedMachine) error {
				other := n
				other.Subnets = slices.Clone(n.Subnets)
				change(&other)
				if n.Type == "L2Bridge" && other.VNI != n.VNI {
					return errUnchanged // it has none
				}
				return m.PutHNSNetwork(ctx, other)
			})
		}
	}
}

func (a *altering) variables() {
	now, was := state[map[string]string](a, "env")
	for name := range now {
		if _, there := was[name]; there {
			continue
		}
		a.add("variable "+name+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.UnsetMachineEnv(ctx, name)
		})
		a.add("variable "+name+" changed", func(ctx context.Context, m joinedMachine) error {
			return m.SetMachineEnv(ctx, name, "other")
		})
	}
}

func (a *altering) registry() {
	now, factory := state[map[string]map[string]host.RegistryValue](a, "registry")
	for key, values := range now {
		for name, v := range values {
			if was, there := factory[key][name]; there && fmt.Sprint(was) == fmt.Sprint(v) {
				continue
			}
			a.add("value "+key+" "+name+" deleted", func(ctx context.Context, m joinedMachine) error {
				return m.DeleteRegistryValue(ctx, key, name)
			})
			a.add("value "+key+" "+name+" changed", func(ctx context.Context, m joinedMachine) error {
				return m.SetRegistryValue(ctx, key, name, host.RegistryValue{Type: "string", String: "other"})
			})
		}
	}
}

// kernel is what programs and steps have set in the kernel of a Linux machine.
func (a *altering) kernel() {
	sysctls, _ := state[map[string]string](a, "sysctls")
	for name := range sysctls {
		a.add("sysctl "+name, func(ctx context.Context, m joinedMachine) error {
			return m.SetSysctl(ctx, name, "0")
		})
	}
	links, _ := state[[]string](a, "links")
	for _, name := range links {
		a.add("interface "+name+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.DeleteInterface(ctx, name)
		})
	}
	chains, _ := state[[]host.FilterChain](a, "chains")
	for _, c := range chains {
		a.add("/chains/"+c.Name+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.DeleteFilterChains(ctx, []host.FilterChain{c})
		})
	}
}

// machine is what a plan has set of the machine itself.
func (a *altering) machine() {
	dynamic, _ := state[map[string]host.PortRange](a, "dynamic_ports")
	for _, r := range dynamic {
		a.add("dynamic ports of "+r.Protocol, func(ctx context.Context, m joinedMachine) error {
			r.First, r.Last = 50000, 60000
			return m.SetDynamicPorts(ctx, r)
		})
	}
	reserved, _ := state[map[string]host.PortRange](a, "reserved_ports")
	for text, r := range reserved {
		a.add("reserved ports "+text, func(ctx context.Context, m joinedMachine) error {
			return m.ReleasePorts(ctx, r)
		})
	}
	if trusted, _ := state[[]string](a, "trusted"); len(trusted) > 0 {
		a.add("authority", func(ctx context.Context, m joinedMachine) error {
			block, _ := pem.Decode([]byte(authority))
			return m.DistrustCA(ctx, block.Bytes)
		})
	}
}

// node is what a plan has given the Node, and what the cluster has for it.
func (a *altering) node() {
	const name = "win-1"
	a.add("Node deleted", func(ctx context.Context, m joinedMachine) error {
		n, err := m.cluster.Node(ctx, name)
		return errors.Join(err, m.cluster.DeleteNode(ctx, name, n.UID))
	})
	for _, l := range []string{"example.com/pool", "example.com/base"} {
		a.add("Node label "+l+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.cluster.SetLabels(ctx, name, nil, []string{l})
		})
		a.add("Node label "+l+" changed", func(ctx context.Context, m joinedMachine) error {
			return m.cluster.SetLabels(ctx, name, map[string]string{l: "other"}, nil)
		})
	}
	taint := kube.Taint{Key: "site", Value: "x", Effect: "NoSchedule"}
	a.add("Node taint deleted", func(ctx context.Context, m joinedMachine) error {
		return m.cluster.SetTaints(ctx, name, nil, []kube.Taint{taint})
	})
	a.add("Node taint changed", func(ctx context.Context, m joinedMachine) error {
		other := taint
		other.Value = "other"
		return m.cluster.SetTaints(ctx, name, []kube.Taint{other}, nil)
	})
	for _, note := range []string{"nodejoin.dev/plan", "nodejoin.dev/labels", "nodejoin.dev/taints"} {
		a.add("Node annotation "+note+" deleted", func(ctx context.Context, m joinedMachine) error {
			return m.cluster.SetAnnotations(ctx, name, nil, []string{note})
		})
		a.add("Node annotation "+note+" changed", func(ctx context.Context, m joinedMachine) error {
			return m.cluster.SetAnnotations(ctx, name, map[string]string{note: "other"}, nil)
		})
	}
	object := kube.Manifest{APIVersion: "v1", Kind: "ConfigMap", Name: "a", Object: map[string]any{"apiVersion": "v1",
		"kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"a": "other"}}}
	a.add("object changed", func(ctx context.Context, m joinedMachine) error {
		return m.cluster.ApplyManifestAs(ctx, object, "nodejoin")
	})
	a.add("object deleted", func(ctx context.Context, m joinedMachine) error {
		return m.cluster.DeleteObject(ctx, kube.Member{Manifest: object})
	})
	for account, role := range map[string]string{"nodejoin-flannel": "nodejoin:flannel", "tool": "tool"} {
		a.add("rights of "+account, func(ctx context.Context, m joinedMachine) error {
			return m.cluster.EnsureServiceAccount(ctx, kube.ServiceAccount{Namespace: "kube-system", Name: account,
				ClusterRole: role, Rules: []kube.Rule{{APIGroups: []string{""}, Resources: []string{"pods"},
					Verbs: []string{"get"}}}})
		})
	}
}
