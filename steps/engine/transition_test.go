package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

// drawn is a plan that was drawn: what it has of what a plan may have.
type drawn struct {
	os string
	// old: Kubernetes 1.23, which runs with docker as well.
	old, docker bool
	parts       []choice
}

// choice is one choice of a dimension; text is for the top of the plan, the profile, and the
// block of the runtime and of the network.
type choice struct {
	dimension, name                string
	top, profile, runtime, flannel string
}

// dimensions are what plans differ in. The first choice of each is that of a plan without it.
func dimensions(osName string) map[string][]choice {
	step := func(name, kind, args string) choice {
		return choice{name: name, top: fmt.Sprintf("step %q %q {\n  on = node.n\n%s\n}\n", kind, name, args)}
	}
	both := map[string][]choice{
		"backend": {{name: "vxlan", flannel: `backend = "vxlan"`}, {name: "host-gw", flannel: `backend = "host-gw"`},
			{name: "vni", flannel: "backend = \"vxlan\"\n vni = 4097"}},
		"proxy": {{}, {name: "proxy", profile: `proxy { http = "http://proxy.example:3128" }`},
			{name: "proxies", profile: `proxy {
  http  = "http://proxy.example:3128"
  https = "http://other.example:3128"
}`}},
		"kubelet": {{}, {name: "kubelet", profile: `kubelet { extra_args = ["--v=2"] }`}},
		"labels":  {{}, {name: "labels", profile: `labels = { "example.com/pool" = "x" }`}},
		"block":   {{}, {name: "bootstrap", top: "manifests { bootstrap = true }"}},
		"objects": {{}, objects("a"), objects("a", "b"), objects("b", "c")},
	}
	if osName == "linux" {
		maps.Copy(both, map[string][]choice{
			"file": {{}, step("motd", "file", `  path = "/opt/site/motd"
  content = "x"`), step("motd2", "file", `  path = "/opt/site/deep/motd"
  content = "y"`)},
			"sysctl": {{}, step("maps", "sysctl", `  name = "vm.max_map_count"
  value = "262144"`)},
			"module": {{}, step("balance", "kernel_module", `  name = "ip_vs"`)},
			"env": {{}, step("site", "env", `  name = "SITE"
  value = "x"`), step("own", "env", `  name = "SITE"
  value = "x"
  file = "/opt/site/x.env"`)},
			"directory": {{}, step("store", "directory", `  path = "/srv/store/a"`)},
			"mode":      {{}, {name: "nftables", profile: `kube_proxy { config = { mode = "nftables" } }`}},
			"mirror": {{}, {name: "registry", runtime: `registry "docker.io" { mirrors = ["https://one.example"] }`},
				{name: "registries", runtime: "registry \"docker.io\" { mirrors = [\"https://one.example\"] }\n" +
					`registry "quay.io" { mirrors = ["https://two.example"] }`}},
		})
		return both
	}
	maps.Copy(both, map[string][]choice{
		"manager": {{}, {name: "nssm", profile: `services { manager = "nssm" }`}},
		"csi":     {{}, {name: "csi", profile: `csi_proxy { version = "1.1.3" }`}},
		"exporter": {{}, {name: "exporter", profile: exporterBlock(9182, "")},
			{name: "exporter2", profile: exporterBlock(9183, `textfile_dir = "C:\\metrics"`)}},
		"placeholder": {{}, {name: "placeholder", flannel: "placeholder = true", profile: "host { static_address = true }"}},
		"firewall": {{}, {name: "open", profile: `firewall {
  allow "site" { ports = "8080" }
}`}, {name: "off", profile: `firewall { manage = false }`},
			{name: "ports", profile: `firewall { node_ports = "30000-32767" }`}},
		"registries": {{}, {name: "registry", runtime: `registry "docker.io" { mirrors = ["https://one.example"] }`},
			{name: "registries", runtime: "registry \"docker.io\" { mirrors = [\"https://one.example\"] }\n" +
				`registry "quay.io" { mirrors = ["https://two.example"] }`}},
		"crictl": {{}, {name: "crictl", runtime: `crictl = "1.36.0"`}},
		"ports": {{}, step("dynamic", "dynamic_ports", "  protocol = \"tcp\"\n  first = 16385\n  last = 65535"),
			step("reserved", "reserved_ports", "  protocol = \"tcp\"\n  first = 30000\n  last = 32767"),
			step("reserved2", "reserved_ports", "  protocol = \"tcp\"\n  first = 30500\n  last = 33100")},
		"file": {{}, step("motd", "file", `  path = "C:\\site\\motd"
  content = "x"`), step("motd2", "file", `  path = "C:\\site\\deep\\motd"
  content = "y"`), {name: "block", profile: "file \"site\" {\n  path = \"C:\\\\site\\\\motd\"\n  content = \"z\"\n}"}},
		"registry": {{}, step("value", "registry", `  key = "HKLM\\SOFTWARE\\Site\\Deep"
  name = "A"
  type = "dword"
  number = 1`), step("value2", "registry", `  key = "HKLM\\SOFTWARE\\Site"
  name = "A"
  type = "string"
  string = "x"`)},
		"env": {{}, step("site", "env", "  name = \"SITE\"\n  value = \"x\""),
			step("other", "env", "  name = \"OTHER\"\n  value = \"x\"")},
		"directory": {{}, step("store", "directory", `  path = "C:\\store\\a"`)},
		"rule": {{}, step("rule", "firewall_rule", `  name = "site"
  direction = "in"
  action = "allow"
  protocol = "tcp"
  ports = "9999"
  enabled = true`)},
		"service": {{}, step("exe", "file", `  path = "C:\\site\\svc.exe"
  content = "stand-in"
}
step "service" "site_service" {
  on = node.n
  name = "site"
  command = ["C:\\site\\svc.exe"]
  makes = ["C:\\site\\data"]
  after = ["exe"]`)},
	})
	return both
}

// objects are ConfigMaps of the cluster.
func objects(names ...string) choice {
	c := choice{name: "objects " + strings.Join(names, "")}
	for _, n := range names {
		c.top += configMap(n, "x", "")
	}
	return c
}

func configMap(name, value, more string) string {
	return fmt.Sprintf(`step "manifest" "object_%[1]s" {
  content = yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = %[1]q }, data = { a = %[2]q } })
  %[3]s
}
`, name, value, more)
}

func exporterBlock(port int, more string) string {
	return fmt.Sprintf("windows_exporter {\n  version = \"0.31.3\"\n  port = %d\n  %s\n}", port, more)
}

func draw(rnd *rand.Rand, osName string) drawn {
	d := drawn{os: osName}
	if osName == "windows" {
		d.docker = rnd.IntN(3) == 0
	}
	all := dimensions(osName)
	for _, dim := range slices.Sorted(maps.Keys(all)) {
		choices := all[dim]
		i := 0
		if rnd.IntN(2) == 0 {
			i = rnd.IntN(len(choices))
		}
		p := choices[i]
		p.dimension = dim
		d.parts = append(d.parts, p)
	}
	return d
}

func (d drawn) String() string {
	var out []string
	if d.docker && d.old {
		out = append(out, "docker")
	}
	for _, p := range d.parts {
		if p.name != "" {
			out = append(out, p.name)
		}
	}
	return strings.Join(out, " ")
}

func (d drawn) has(name string) bool {
	return slices.ContainsFunc(d.parts, func(p choice) bool { return p.name == name })
}

// text is the plan. Its artifacts are the stand-ins of the quickstart.
func (d drawn) text(t testing.TB, mirror string) string {
	var top, profile, runtime, flannel []string
	for _, p := range d.parts {
		top, profile = append(top, p.top), append(profile, p.profile)
		runtime, flannel = append(runtime, p.runtime), append(flannel, p.flannel)
	}
	artifacts := map[string]string{"kubernetes_node": "kubernetes-node-windows-amd64.tar.gz",
		"containerd":  "containerd-2.2.1-windows-amd64.tar.gz",
		"cni_plugins": "cni-plugins-windows-amd64-v1.9.1.tgz", "flannel_cni": "flannel-amd64.exe",
		"flanneld": "flanneld.exe"}
	if d.os == "linux" {
		artifacts = map[string]string{"kubernetes_node": "kubernetes-node-linux-amd64.tar.gz",
			"containerd":  "containerd-2.2.1-linux-amd64.tar.gz",
			"cni_plugins": "cni-plugins-linux-amd64-v1.9.1.tgz", "flannel_cni": "flannel-amd64",
			"flanneld": "flanneld-amd64", "runc": "runc.amd64"}
	}
	kubernetes, version, kind := "1.36.3", "2.2.1", "containerd"
	if d.old {
		kubernetes, version = "1.23.17", "1.6.36"
		artifacts["containerd"] = "containerd-1.6.36-windows-amd64.tar.gz"
		runtime = nil
	}
	if d.old && d.docker {
		delete(artifacts, "containerd")
		version, kind, artifacts["docker"] = "20.10.24", "docker", "docker-20.10.24.zip"
	}
	for part, a := range map[string][2]string{"csi": {"csi_proxy", "csi-proxy.exe"},
		"exporter":  {"windows_exporter", "windows_exporter-0.31.3-amd64.exe"},
		"exporter2": {"windows_exporter", "windows_exporter-0.31.3-amd64.exe"}, "nssm": {"nssm", "nssm-2.24.zip"},
		"crictl": {"crictl", "crictl-v1.36.0-windows-amd64.tar.gz"}} {
		if d.has(part) && (part != "crictl" || !d.old) {
			artifacts[a[0]] = a[1]
		}
	}
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(artifacts)) {
		line := map[string]string{"cni_plugins": "  version = \"1.9.1\"\n", "nssm": "  version = \"2.24.0\"\n"}[name]
		fmt.Fprintf(&list, "artifact %q {\n%s  sha256 = %q\n}\n", name, line,
			sha256File(t, filepath.Join(mirror, artifacts[name])))
	}
	return fmt.Sprintf(`cluster "demo" {
  kubernetes = %q
  api_server = "https://10.0.0.10:6443"
  sandbox    = ".sandbox/cluster"
}
runtime %q {
  version = %q
  %s
}
network "flannel" {
  version = "0.28.9"
  %s
}
mirror { path = "./mirror" }
%s
profile "p" {
  os = %q
  %s
}
node "n" {
  name    = "win-1"
  profile = profile.p
  connection "sandbox" {
    path  = ".sandbox/win-1"
    %s
    ip    = "192.0.2.11"
  }
}
%s
`, kubernetes, kind, version, nonEmpty(runtime), nonEmpty(flannel), list.String(), d.os, nonEmpty(profile),
		map[string]string{"windows": `build = "10.0.20348"`}[d.os], nonEmpty(top))
}

func nonEmpty(list []string) string {
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), "\n")
}

// write puts the plan in place of the world's.
func (w *world) write(d drawn) {
	w.t.Helper()
	mirror := filepath.Join(w.dir, "mirror")
	if d.old {
		b, err := os.ReadFile(filepath.Join(mirror, "containerd-2.2.1-windows-amd64.tar.gz"))
		if err == nil {
			err = os.WriteFile(filepath.Join(mirror, "containerd-1.6.36-windows-amd64.tar.gz"), b, 0o644)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if d.old { // what counts is how the cluster was made
		dir := filepath.Join(w.dir, ".sandbox", "cluster")
		if _, err := sandbox.OpenCluster(w.t.Context(),
			sandbox.ClusterConfig{Dir: dir, Version: "v1.23.17"}); err != nil {
			w.t.Fatal(err)
		}
	}
	text := d.text(w.t, mirror)
	if err := os.WriteFile(filepath.Join(w.dir, "quickstart.join.hcl"), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// applied applies the plan and wants that the next run finds nothing to do.
func (w *world) applied(d drawn) error {
	w.write(d)
	r, sum := w.apply(-1)
	if err := r.Hosts[0].Err; err != nil {
		return err
	}
	for _, s := range r.Hosts[0].Steps {
		if s.Result.Err != nil {
			return fmt.Errorf("check of %s: %w", s.Spec.ID, s.Result.Err)
		}
	}
	if h := sum.Hosts[0]; h.Err != nil {
		return fmt.Errorf("%s: %w", h.Failed, h.Err)
	}
	return nil
}

func (w *world) quiet() error {
	r, sum := w.apply(-1)
	h := r.Hosts[0]
	var out []string
	for _, s := range h.Steps {
		if s.Result.Err != nil || !s.Result.Change.NoOp() {
			out = append(out, fmt.Sprintf("%s is not in order: %+v %v", s.Spec.ID, s.Result.Change, s.Result.Err))
		}
	}
	for _, i := range h.Removals.Removing() {
		out = append(out, fmt.Sprintf("%s is to be removed", i.Key))
	}
	if n := w.calls.Load(); n != 0 || sum.Hosts[0].Err != nil {
		out = append(out, fmt.Sprintf("%d mutating calls, %v", n, sum.Hosts[0].Err))
	}
	if out != nil {
		return fmt.Errorf("the plan after it is not empty: %s", strings.Join(out, "; "))
	}
	return nil
}

// pairs is how many pairs of plans are drawn, by the environment.
func pairs(t *testing.T) (n int, seed uint64) {
	n, seed = 2, uint64(time.Now().UnixNano())
	if testing.Short() {
		n = 1
	}
	if v := os.Getenv("NODEJOIN_PAIRS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv("NODEJOIN_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return n, seed
}

// TestPlanIsTheWholeTruth: of two plans drawn at random, the second leaves machine and
// cluster as it would have without the first; the first again leaves them as it had before;
// the plan after each is empty; and a leave leaves the machine as it was.
// NODEJOIN_PAIRS sets how many pairs are drawn, NODEJOIN_SEED draws those of a failure.
func TestPlanIsTheWholeTruth(t *testing.T) {
	n, seed := pairs(t)
	for i := range n {
		for _, osName := range []string{"windows", "linux"} {
			s := seed + uint64(i)
			t.Run(fmt.Sprintf("%s-%d", osName, s), func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(s, 1))
				a, b := draw(rnd, osName), draw(rnd, osName)
				a.old = osName == "windows" && rnd.IntN(4) == 0
				b.old = a.old
				t.Logf("seed %d\nA: %s\nB: %s", s, a, b)
				pairOf(t, a, b)
			})
		}
	}
}

func pairOf(t *testing.T, a, b drawn) {
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	alone := newWorld(t)
	must("B alone", alone.applied(b))
	want := alone.facts(t)
	w := newWorld(t)
	must("A", w.applied(a))
	first := w.facts(t)
	must("A then B", w.applied(b))
	if d := cmp.Diff(want, w.facts(t)); d != "" {
		t.Errorf("B alone (-), A then B (+):\n%s", d)
	}
	must("A then B", w.quiet())
	must("A, B, A", w.applied(a))
	if d := cmp.Diff(first, w.facts(t)); d != "" {
		t.Errorf("A (-), A then B then A (+):\n%s", d)
	}
	must("A, B, A", w.quiet())
	must("leave", leaves(w))
	left := snapshot(t, w.sandboxDir())
	fresh := newWorld(t)
	fresh.write(a)
	node := fresh.compile().Nodes[0]
	_, err := sandbox.Open(t.Context(), sandbox.Config{Path: node.Connection.Sandbox.Path, OS: node.OS,
		Build: node.Connection.Sandbox.Build,
		IP:    node.Connection.Sandbox.IP, Hostname: "win-1"})
	must("a machine", err)
	if d := cmp.Diff(settled(snapshot(t, fresh.sandboxDir())), settled(left)); d != "" {
		t.Errorf("untouched (-), after the leave (+):\n%s", d)
	}
}

// TestKilledTransitions: the apply of the second of two plans ends at each of its mutating
// calls. The next run ends where it would have, and the one after finds nothing to do.
func TestKilledTransitions(t *testing.T) {
	n, seed := pairs(t)
	step := 1
	if os.Getenv("NODEJOIN_PAIRS") == "" {
		n, step = 1, 9
	}
	for i := range n {
		for _, osName := range []string{"windows", "linux"} {
			s := seed + uint64(i)
			t.Run(fmt.Sprintf("%s-%d", osName, s), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(s, 1))
				a, b := draw(rnd, osName), draw(rnd, osName)
				t.Logf("seed %d\nA: %s\nB: %s", s, a, b)
				killedTransition(t, a, b, step)
			})
		}
	}
}

func killedTransition(t *testing.T, a, b drawn, step int) {
	alone := newWorld(t)
	if err := alone.applied(b); err != nil {
		t.Fatal(err)
	}
	want := alone.facts(t)
	w := newWorld(t)
	if err := w.applied(a); err != nil {
		t.Fatal(err)
	}
	w.write(b)
	ended, kept := []string{}, t.TempDir()
	w.at = func(n int64) {
		if n%int64(step) != 0 {
			return
		}
		dir := filepath.Join(kept, fmt.Sprintf("%03d", n))
		if err := copyTree(dir, w.dir); err != nil {
			t.Error(err)
		}
		ended = append(ended, dir)
	}
	if err := w.applied(b); err != nil {
		t.Fatal(err)
	}
	for _, dir := range ended {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			c := w.copyOf(t, dir)
			if err := c.applied(b); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, c.facts(t)); d != "" {
				t.Errorf("the second plan alone (-), after a run that was killed (+):\n%s", d)
			}
			if err := c.quiet(); err != nil {
				t.Error(err)
			}
		})
	}
}

// volatile is what differs between two runs of the same.
var volatile = regexp.MustCompile(`"(pid|started|boot_time|id)": [^,\n]*,?`)

func settled(s map[string]string) map[string]string {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(k, v string) bool {
		loaded := k == "state: modules" || k == "C" || k == filepath.Join("C", "ProgramData") // each Windows has these
		// what a service of the sandbox does later, at a time of the clock
		return k == "state: boot_time" || k == "state: due" || loaded ||
			strings.Contains(filepath.ToSlash(k)+"/", "/nodejoin/") ||
			strings.HasPrefix(k, "state: ") && (v == "{}" || v == "null" || v == "[]")
	})
	out["state: registry"] = emptyKey.ReplaceAllString(out["state: registry"], "")
	return out
}

// emptyKey is a registry key without values; the sandbox has no entry for some of them.
var emptyKey = regexp.MustCompile(`(?m)^ "[^"]*": \{\},?\n`)

// facts is what the machine is, and its Node, without what is of one run alone.
func (w *world) facts(t *testing.T) map[string]string {
	t.Helper()
	return w.factsOf(t, "win-1")
}

func (w *world) factsOf(t *testing.T, node string) map[string]string {
	t.Helper()
	out := settled(kept(snapshot(t, w.sandboxDir())))
	for k, v := range out {
		if strings.HasPrefix(k, "state: ") {
			out[k] = volatile.ReplaceAllString(v, "")
		}
		if filepath.ToSlash(k) == "etc/environment" { // others' lines are not moved
			out[k] = strings.Join(slices.Sorted(strings.Lines(v)), "")
		}
		for _, part := range []string{"pki", "kubelet.conf", "flannel.conf", "kube-proxy.conf", "bootstrap"} {
			if strings.Contains(strings.ToLower(k), part) && !strings.HasPrefix(k, "state") {
				out[k] = "there"
			}
		}
	}
	n := w.node(node)
	delete(n.Annotations, kube.LastApply)
	out["objects"] = strings.Join(w.objects(), " ")
	out["node"] = fmt.Sprintf("%v %v %v", n.Labels, n.Taints, slices.Sorted(maps.Keys(n.Annotations)))
	return out
}
