package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// policies is a folder with plans that are judged by examples/policies.
type policies struct {
	t       *testing.T
	ctx     context.Context
	program string
	dir     string // a copy of examples
}

// TestPolicies: each policy refuses its bad plan and nothing else does; the examples pass.
func TestPolicies(t *testing.T) {
	program := nodejoin(t, "linux") // built outside of the bound
	ctx, cancel := bounded(t, 3*time.Minute)
	defer cancel()
	p := &policies{t, ctx, program, filepath.Join(t.TempDir(), "examples")}
	for _, e := range mustReadDir(t, filepath.Join(repository(t), "examples")) {
		if from := filepath.Join(repository(t), "examples", e.Name()); e.IsDir() && e.Name() != "acceptance" {
			if err := os.CopyFS(filepath.Join(p.dir, e.Name()), os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("examples", func(t *testing.T) { p.examples() })
	tried := map[string]bool{}
	for _, c := range badPlans {
		tried[c.policy+".rego"] = true
		t.Run(c.policy, func(t *testing.T) {
			q := *p
			q.t = t
			q.refused(c)
		})
	}
	for _, e := range mustReadDir(t, filepath.Join(p.dir, "policies")) {
		if filepath.Ext(e.Name()) == ".rego" && !tried[e.Name()] {
			t.Errorf("no bad plan for %s", e.Name())
		}
	}
}

func mustReadDir(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// examplesRefused are the examples that policies refuse as they are meant to, with a part of each text.
var examplesRefused = map[string][]string{
	"docker":     {"Kubernetes 1.23.17 gets no more fixes"},
	"mcr":        {"Kubernetes 1.23.17 gets no more fixes"},
	"registries": {"uses the image images.example/pause"},
}

// examplesOfOthers are the examples that need more than the sandboxes beside them, with the reason.
var examplesOfOthers = map[string]string{
	"kubeconfig":  "needs kubeconfigs of the cluster",
	"windows-ssh": "its values come from the environment",
	"bench":       "its values come from the environment",
}

func (p *policies) examples() {
	n := 0
	for _, e := range mustReadDir(p.t, p.dir) {
		plans, _ := filepath.Glob(filepath.Join(p.dir, e.Name(), "*.join.hcl"))
		if len(plans) == 0 || examplesOfOthers[e.Name()] != "" {
			continue
		}
		n++
		failures, _ := p.judge(p.plan(filepath.Join(p.dir, e.Name())), "")
		p.want(e.Name(), failures, examplesRefused[e.Name()])
	}
	if n < 12 {
		p.t.Errorf("%d examples", n)
	}
}

// want checks that each text is in one of the messages, and that there are no others.
func (p *policies) want(what string, messages, texts []string) {
	p.t.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(messages, func(m string) bool { return strings.Contains(m, text) }) {
			p.t.Errorf("%s: no message has %q: %q", what, text, messages)
		}
	}
	for _, m := range messages {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(m, text) }) {
			p.t.Errorf("%s: refused: %s", what, m)
		}
	}
}

// run runs nodejoin and returns what it printed. It may end with one of the codes.
func (p *policies) run(codes []int, args ...string) []byte {
	p.t.Helper()
	cmd := exec.CommandContext(p.ctx, p.program, args...)
	cmd.Env = append(os.Environ(), "HOME="+p.dir)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !slices.Contains(codes, exit.ExitCode()) || err != nil && exit == nil {
		p.t.Fatalf("nodejoin %s: %v\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out
}

// plan returns the JSON of a plan. Hosts may be out of reach, or not ready to join.
func (p *policies) plan(path string) []byte {
	p.t.Helper()
	return p.run([]int{0, 1, 4}, "plan", "--json", path)
}

// judge returns what the policies refuse in a plan, and what they warn of. allowed is YAML beside allowed.yaml.
func (p *policies) judge(plan []byte, allowed string) (failures, warnings []string) {
	p.t.Helper()
	dir := p.t.TempDir()
	file, folder := filepath.Join(dir, "plan.json"), filepath.Join(p.dir, "policies")
	args := []string{"test", "-o", "json", "-p", folder, "-d", filepath.Join(folder, "allowed.yaml")}
	if allowed != "" {
		data := filepath.Join(dir, "allowed.yaml")
		args = append(args[:len(args)-1], data)
		text, err := os.ReadFile(filepath.Join(folder, "allowed.yaml"))
		if err = errors.Join(err, os.WriteFile(data, replaced(p.t, string(text), allowed), 0o600)); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, plan, 0o600); err != nil {
		p.t.Fatal(err)
	}
	out, err := exec.CommandContext(p.ctx, componentSet(p.t).Bin("conftest"), append(args, file)...).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		p.t.Fatalf("%v: %s", err, out)
	}
	var results []struct {
		Failures, Warnings []struct{ Msg string }
		Successes          int
	}
	if err := json.Unmarshal(out, &results); err != nil || len(results) != 1 || results[0].Successes == 0 {
		p.t.Fatalf("%v: %s", err, out)
	}
	for _, f := range results[0].Failures {
		failures = append(failures, f.Msg)
	}
	for _, w := range results[0].Warnings {
		warnings = append(warnings, w.Msg)
	}
	return failures, warnings
}

// replaced is a text with a change in the form "OLD => NEW".
func replaced(t *testing.T, text, change string) []byte {
	t.Helper()
	old, now, _ := strings.Cut(change, " => ")
	if !strings.Contains(text, old) {
		t.Fatalf("no %q in\n%s", old, text)
	}
	return []byte(strings.Replace(text, old, now, 1))
}

// goodPlan passes all policies. Bad ones differ from it in one place.
const goodPlan = `cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }
network "none" {}
mirror { path = "../../quickstart/mirror" }
# more

node "win-1" {
  os = "windows"
  # host

  connection "sandbox" {
    path  = ".sandbox/win-1"
    ip    = "192.0.2.11"
    build = "10.0.20348"
  }
}
`

// badPlan is a plan that one policy refuses.
type badPlan struct {
	policy  string
	change  string // of goodPlan
	want    string // part of what the policy says
	allowed string // change of allowed.yaml
	first   string // change of the plan that is applied before
	edit    string // change of the plan's JSON
	digests bool   // the plan has the digests itself, and no lock
	warns   bool   // the policy only warns
}

var badPlans = []badPlan{
	{policy: "artifacts_locked", digests: true, want: "(windows/amd64) is not locked"},
	{policy: "artifacts_verified", warns: true, want: "nobody vouches for the artifact containerd"},
	{policy: "evictions", edit: `"steps": [ => "interruption": {"services": ["kubelet"], "evict": ["production/web-1", ` +
		`"default/web-1"]}, "steps": [`, want: "the pod production/web-1 would be evicted"},
	{policy: "firewall_ports", change: `# more => ` + step("firewall_rule", `name = "rdp"
  display_name = "RDP"
  direction = "in"
  action = "allow"
  protocol = "tcp"
  ports = "10250,3389"`), want: "site opens port 3389/tcp"},
	{policy: "host_keys", change: sandboxHost + ` => connection "ssh" {
    host = "127.0.0.254"
    accept_new = true
  }`, want: "node.win-1 takes any host key at first contact"},
	{policy: "images", change: `network "none" {} => network "none" {}
` + step("manifest", `content = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata: {name: site}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: site, namespace: site}
    spec:
      selector: {matchLabels: {app: site}}
      template:
        metadata: {labels: {app: site}}
        spec:
          containers: [{name: site, image: "docker.io/site/agent:1"}]
  EOT`), want: "uses the image docker.io/site/agent:1"},
	{policy: "kubelet", change: `# host => kubelet { config = { authentication = { anonymous = { enabled = true } } } }`,
		want: "the kubelet answers anonymous requests"},
	{policy: "kubernetes_versions", change: `"1.36.3" => "1.30.4"`, want: "Kubernetes 1.30.4 gets no more fixes"},
	{policy: "node_credentials", change: `# more => ` + step("file", `path = "C:\\Users\\Administrator\\.kube\\config"
  content = "apiVersion: v1"`), want: "is where administrators keep their kubeconfig"},
	{policy: "protection", change: `# more => ` + step("registry",
		`key = "HKLM\\SOFTWARE\\Policies\\Microsoft\\Windows Defender\\Real-Time Protection"
  name = "DisableRealtimeMonitoring"
  type = "dword"
  number = 1`), want: "turns protection of the machine off (DisableRealtimeMonitoring)"},
	{policy: "reboots", change: `# host => host {
    reboot = "auto"
    page_file = 4096
    tcp_keepalive = "5m"
  }`, allowed: `reboots: true => reboots: false`, want: "node.win-1.reboot: the machine would be rebooted"},
	{policy: "removals", first: `# host => csi_proxy { version = "1.1.3" }`,
		want: "the service csi-proxy would be removed"},
	{policy: "rollout", change: `# more => rollout { max_unavailable = 2 }
node "win-2" {
  os = "windows"
  connection "sandbox" {
    path = ".sandbox/win-2"
    ip   = "192.0.2.12"
  }
}`, want: "max_unavailable is 2 of 2 nodes, at most 1 are allowed"},
	{policy: "secrets", change: `# more => ` + step("env", `name = "SITE_PASSWORD"
  value = "x"`), want: "the variable SITE_PASSWORD is not sensitive"},
	{policy: "ssh_users", change: windowsHost + ` => os = "linux"
  connection "ssh" {
    host = "127.0.0.254"
    user = "root"
  }`, want: "node.win-1 logs in as root"},
	{policy: "taints", change: `# more => node "lin-1" {
  os = "linux"
  connection "sandbox" {
    path = ".sandbox/lin-1"
    ip   = "192.0.2.13"
  }
}`, want: "node.win-1 has no taint os=windows:NoSchedule"},
	{policy: "windows_builds", change: `"10.0.20348" => "10.0.17763"`, allowed: `"10.0.17763", => `,
		want: "Windows 10.0.17763"},
}

// sandboxHost is the connection of goodPlan.
const sandboxHost = `connection "sandbox" {
    path  = ".sandbox/win-1"
    ip    = "192.0.2.11"
    build = "10.0.20348"
  }`

// windowsHost is what goodPlan says about its node.
const windowsHost = `os = "windows"
  # host

  ` + sandboxHost

// step is a step of a plan.
func step(kind, args string) string { return `step "` + kind + `" "site" {` + "\n  " + args + "\n}" }

// refused checks that one policy refuses a plan, and no other.
func (p *policies) refused(c badPlan) {
	dir := filepath.Join(p.dir, "policies", c.policy)
	file := filepath.Join(dir, "a.join.hcl")
	write := func(change string) {
		p.t.Helper()
		text := []byte(goodPlan)
		if change != "" {
			text = replaced(p.t, goodPlan, change)
		}
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, text, 0o600)); err != nil {
			p.t.Fatal(err)
		}
		p.run(nil, "lock", dir)
	}
	if c.first != "" {
		write(c.first)
		p.run(nil, "apply", "--auto-approve", dir)
	}
	write(c.change)
	if c.digests {
		p.withDigests(dir)
	}
	plan := p.plan(dir)
	if c.edit != "" {
		plan = replaced(p.t, string(plan), c.edit)
	}
	failures, warnings := p.judge(plan, c.allowed)
	if c.warns {
		p.want("plan", failures, nil)
		failures = slices.DeleteFunc(warnings, func(m string) bool { return !strings.Contains(m, c.want) })
	}
	p.want("plan", failures, []string{c.want})
}

// withDigests moves the digests of the lock into the plan.
func (p *policies) withDigests(dir string) {
	p.t.Helper()
	locked := filepath.Join(dir, "nodejoin.lock.hcl")
	text, err := os.ReadFile(locked)
	if err != nil {
		p.t.Fatal(err)
	}
	plan := goodPlan
	entry := regexp.MustCompile(`(?s)artifact "(\w+)" "windows/amd64" \{.*?sha256 += ("\w+")`)
	for _, m := range entry.FindAllSubmatch(text, -1) {
		plan += "\nartifact \"" + string(m[1]) + "\" { sha256 = " + string(m[2]) + " }\n"
	}
	if err := errors.Join(os.Remove(locked),
		os.WriteFile(filepath.Join(dir, "a.join.hcl"), []byte(plan), 0o600)); err != nil {
		p.t.Fatal(err)
	}
}
