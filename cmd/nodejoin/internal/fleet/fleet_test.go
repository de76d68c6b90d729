package fleet

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/plan"
	"nodejoin/plan/source"
	"nodejoin/steps"
)

var update = flag.Bool("update", false, "write testdata/fleet.yaml")

const planText = `cluster "prod" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  kubeconfig = "admin.conf"
  pod_cidr   = "10.244.0.0/16"
  join "bootstrap_token" {}
}
runtime "containerd" { version = "2.2.1" }
network "flannel" { version = "0.28.9" }
artifact "kubernetes_node" { sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
artifact "containerd" { sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
artifact "cni_plugins" {
  version = "1.9.1"
  sha256  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
}
artifact "flannel_cni" {
  version = "1.9.1-flannel1"
  sha256  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
}
artifact "flanneld" { sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
node "win" {
  count = 3
  os    = "windows"
  connection "ssh" {
    host = "win-${count.index}.example"
    port = 2222
  }
}
step "manifest" "settings" {
  content = file("files/settings.yaml")
}
`

const settings = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {"quoted": "a \"b\" <c>"}
`

// files of a plan's folder; those that it does not read are in no object.
var files = map[string]string{"a.join.hcl": planText, "files/settings.yaml": settings, "prod.auto.joinvars": "",
	"notes.txt": "not a part of the plan"}

var options = Options{Name: "prod", Namespace: "fleets", Image: "registry.example/nodejoin@sha256:" +
	strings.Repeat("a", 64), Command: "apply", Shards: 8, AtOnce: 2, Retries: 3, Drift: "0 * * * *",
	KnownHosts: "win-0.example ssh-ed25519 AAAA\n", Home: "/home/me"}

func load(t *testing.T, files map[string]string) (*plan.Compiled, string, []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var read []string
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", Unvalued: true,
		Module: func(source.Remote) (string, error) { return filepath.Join(dir, "unpacked"), nil },
		Note:   func(file string) { read = append(read, file) },
		Agent: func(string, string, string) (steps.Source, error) {
			return steps.Source{File: "agent", SHA256: strings.Repeat("0", 64)}, nil
		}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c, diags := p.Compile()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return c, dir, read
}

// TestRender: the objects of a fleet are those of testdata/fleet.yaml, which the tests of steps/cluster send to an API
// server.
func TestRender(t *testing.T) {
	c, dir, read := load(t, files)
	f, err := New(options, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	var have, again bytes.Buffer
	if err := f.Render(&have); err != nil {
		t.Fatal(err)
	}
	c, dir, read = load(t, files)
	slices.Reverse(read)
	if f, err = New(options, c, dir, read); err == nil {
		err = f.Render(&again)
	}
	if d := cmp.Diff(have.String(), again.String()); err != nil || d != "" {
		t.Errorf("the same plan elsewhere: %v\n%s", err, d)
	}
	wantGolden(t, f, "fleet.yaml")
	for _, command := range Commands[1:] {
		o := options
		o.Command, o.Name, o.Drift = command, command, ""
		other, err := New(o, c, dir, read)
		if err != nil {
			t.Fatal(err)
		}
		wantGolden(t, other, command+".yaml")
	}
	// Nodes of an older API server have accounts of their own.
	older := maps.Clone(files)
	older["a.join.hcl"] = strings.Replace(planText, "1.36.3", "1.30.14", 1)
	for command, name := range map[string]string{"apply": "older", "leave": "older-leave"} {
		c, dir, read := load(t, older)
		o := options
		o.Command, o.Name, o.Drift = command, name, ""
		other, err := New(o, c, dir, read)
		if err != nil {
			t.Fatal(err)
		}
		wantGolden(t, other, name+".yaml")
	}
	objects, err := f.Objects()
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{}
	for _, o := range objects {
		kinds = append(kinds, o.Kind)
	}
	if kinds[0] != "Namespace" || !slices.Contains(kinds, "Job") || !slices.Contains(kinds, "CronJob") {
		t.Errorf("kinds: %v", kinds)
	}
	if strings.Contains(have.String(), "not a part of the plan") {
		t.Error("a file that the plan does not read is in it")
	}
}

// wantGolden compares the objects of a fleet with a file of testdata.
func wantGolden(t *testing.T, f *Fleet, name string) {
	t.Helper()
	var have bytes.Buffer
	if err := f.Render(&have); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, have.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if d := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), have.String()); err != nil || d != "" {
		t.Errorf("%s: %v (-want +have), -update writes it:\n%s", name, err, d)
	}
}

// TestOddText: names, paths and texts that YAML reads in another way come through as they are.
func TestOddText(t *testing.T) {
	const odd = "a: \"b\" # c\n\u0085\u007f\u009b\u2028\ufeff\uffff\ttrue<&>\n"
	values := "x\nkind: Secret\n.auto.joinvars"
	if runtime.GOOS == "windows" { // file names have no line breaks there
		values = "x #.auto.joinvars"
	}
	plan := strings.Replace(planText, `"admin.conf"`, `"on: [.conf"`, 1)
	c, dir, read := load(t, map[string]string{"a.join.hcl": plan + "# \u0085\u007f\u009b\u2028\n",
		"files/settings.yaml": settings, values: ""})
	o := options
	o.Name, o.Namespace, o.Image, o.KnownHosts = "on", "true", "1", odd
	f, err := New(o, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := f.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range objects {
		switch m.Kind + " " + m.Name {
		case "ConfigMap on-plan":
			for _, f := range f.Files {
				if have := field(m.Object, "data")[f.Key]; have != string(f.Data) {
					t.Errorf("%s: %q", f.Path, have)
				}
			}
		case "ConfigMap on-known-hosts":
			if have := field(m.Object, "data")["known_hosts"]; have != odd {
				t.Errorf("known_hosts: %q", have)
			}
		case "Namespace true":
		default:
			if m.Namespace != "true" && m.Namespace != "kube-system" && !strings.HasPrefix(m.Name, "true:on") {
				t.Errorf("%s %s/%s", m.Kind, m.Namespace, m.Name)
			}
		}
	}
}

// TestSecretsAreInNoConfigMap: files with values that the plan calls sensitive are for the Secret, as files of values
// are.
func TestSecretsAreInNoConfigMap(t *testing.T) {
	const key, pin, word = "-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\n", "4711\n", "correct horse"
	text := "node \"a\" {\n os = \"linux\"\n connection \"ssh\" { host = \"h\" }\n}\n"
	for id, content := range map[string]string{"key": `sensitive(file("a.key"))`,
		"pin": `sensitive(trimspace(file("pin")))`, "word": `sensitive(jsondecode(file("word.json")).word)`,
		"open": `file("open.txt")`} {
		text += "step \"file\" \"" + id + "\" {\n path = \"/" + id + "\"\n content = " + content + "\n}\n"
	}
	c, dir, read := load(t, map[string]string{"a.join.hcl": text, "a.key": key, "pin": pin,
		"word.json": `{"word": "` + word + `"}`, "open.txt": "it has 4711 words\n"})
	f, err := New(options, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	names := func(files []File) (out []string) {
		for _, f := range files {
			out = append(out, f.Path)
		}
		return out
	}
	if d := cmp.Diff([]string{"a.join.hcl", "open.txt"}, names(f.Files)); d != "" {
		t.Errorf("for the ConfigMap (-want +have):\n%s", d)
	}
	if d := cmp.Diff([]string{"a.key", "pin", "word.json"}, names(f.Values)); d != "" {
		t.Errorf("for the Secret (-want +have):\n%s", d)
	}
	var b bytes.Buffer
	if err := f.Render(&b); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"MC4CAQ", word} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("%s is in the objects", secret)
		}
	}
	if _, err := f.Objects(); err != nil {
		t.Error(err)
	}
}

// TestRightsToDeleteNodes: a run that may delete a Node lists all that may end with it. Others may not delete Nodes.
func TestRightsToDeleteNodes(t *testing.T) {
	moved := planText + "moved {\n from = \"old\"\n to = \"win-0\"\n}\n"
	restored := strings.Replace(planText, "count = 3", "count = 3\n on_failure = \"rollback\"", 1)
	const own = `"nodejoin:first-boot:win-0","nodejoin:first-boot:win-1","nodejoin:first-boot:win-2"`
	ends := map[string]string{planText: own, moved: `"nodejoin:first-boot:old",` + own, restored: own}
	for text, may := range map[string]bool{planText: false, moved: true, restored: true} {
		c, dir, read := load(t, map[string]string{"a.join.hcl": text, "files/settings.yaml": settings})
		f, err := New(options, c, dir, read)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range []string{
			`{apiGroups: [""], resources: ["nodes"], verbs: ["delete"]}`,
			`{apiGroups: [""], resources: ["secrets"], verbs: ["delete","list"]}`,
			`{apiGroups: [""], resources: ["serviceaccounts"], verbs: ["list"]}`,
			`{apiGroups: ["rbac.authorization.k8s.io"], resources: ["clusterrolebindings"], verbs: ["list"]}`,
			`{apiGroups: ["rbac.authorization.k8s.io"], resources: ["clusterroles"], verbs: ["list"]}`,
			`{apiGroups: ["rbac.authorization.k8s.io"], resources: ["clusterroles"], resourceNames: [` + ends[text] +
				`], verbs: ["delete"]}`,
		} {
			if slices.ContainsFunc(f.Rules, func(r Rule) bool { return r.String() == rule }) != may {
				t.Errorf("rule %s: %v in\n%s", rule, !may, text)
			}
		}
	}
}

// TestWithoutCluster: a plan whose nodes join nothing needs no rights but those to write results.
func TestWithoutCluster(t *testing.T) {
	c, dir, read := load(t, map[string]string{"a.join.hcl": "node \"a\" {\n os = \"linux\"\n" +
		" connection \"ssh\" { host = \"h\" }\n}\nstep \"file\" \"f\" {\n path = \"/x\"\n content = \"\"\n}\n"})
	f, err := New(options, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := f.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if strings.HasPrefix(o.Kind, "ClusterRole") || o.Namespace == "kube-system" {
			t.Errorf("%s", o)
		}
	}
	if f.Kubeconfig.At != "/home/nodejoin/.kube/config" {
		t.Errorf("kubeconfig: %+v", f.Kubeconfig)
	}
}

// TestPortsOfModules: the pods may connect to where the plan's modules are.
func TestPortsOfModules(t *testing.T) {
	digest := strings.Repeat("a", 64)
	c, dir, read := load(t, map[string]string{"a.join.hcl": "node \"a\" {\n os = \"linux\"\n" +
		" connection \"ssh\" { host = \"h\" }\n}\n" +
		"module \"a\" { source = \"oci://registry.example:5000/nodes@sha256:" + digest + "\" }\n" +
		"module \"b\" {\n source = \"http://git.example/nodes.zip\"\n sha256 = \"" + digest + "\"\n}\n",
		"unpacked/m.join.hcl": ""})
	f, err := New(options, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{22, 80, 443, 5000, 6443}; !slices.Equal(f.Ports, want) {
		t.Errorf("ports %v, want %v", f.Ports, want)
	}
}

// TestRefused: what a pod could not do is refused where the fleet is made.
func TestRefused(t *testing.T) {
	with := func(change func(*Options)) Options {
		o := options
		change(&o)
		return o
	}
	text := func(old, new string) map[string]string {
		return map[string]string{"a.join.hcl": strings.Replace(planText, old, new, 1), "files/settings.yaml": settings}
	}
	for _, c := range []struct {
		o     Options
		files map[string]string
		want  string
	}{
		{with(func(o *Options) { o.Name = "No" }), files, `--name "No": it must have at most 40 small letters`},
		{with(func(o *Options) { o.Namespace = "" }), files, `--namespace ""`},
		{with(func(o *Options) { o.Image = "" }), files, "--image is missing"},
		{with(func(o *Options) { o.Image = "a b" }), files, `--image "a b": it must be a reference`},
		{with(func(o *Options) { o.Shards = 0 }), files, "--shards: it must be a whole number from 1 to 1000"},
		{with(func(o *Options) { o.AtOnce = 0 }), files, "--at-once: it must be at least 1"},
		{with(func(o *Options) { o.Command = "init" }), files,
			`--command "init": it must be one of apply, doctor, leave, verify`},
		{with(func(o *Options) { o.Command = "doctor" }), files, "--drift goes with --command apply"},
		{with(func(o *Options) { o.Retries = -1 }), files, "--retries"},
		{with(func(o *Options) { o.Drift = "hourly" }), files, `--drift "hourly": it must be a schedule of cron`},
		{with(func(o *Options) { o.KnownHosts = "" }), files,
			`a.join.hcl:24,3: the host key of node "win-0" is not known in a pod: give --known-hosts FILE`},
		{options, text("port = 2222", `identity = ["/etc/keys/id"]`),
			`node "win-0" has the file /etc/keys/id: the pods of a fleet have keys and known_hosts in ~/.ssh`},
		{options, map[string]string{"a.join.hcl": "node \"a\" {\n os = \"linux\"\n connection \"local\" {}\n}\n" +
			"step \"file\" \"f\" {\n path = \"/x\"\n content = \"\"\n}\n"}, `node "a" has the connection "local"`},
		{options, text(`"ssh" {
    host = "win-${count.index}.example"
    port = 2222`, `"sandbox" {
    path = "box-${count.index}"`),
			`node "win-0" has the connection "sandbox": the pods of a fleet reach machines over SSH`},
		{options, text(`node "win" {`, "variable \"at\" { type = string }\nnode \"win\" {"), "at: no value is known here"},
		{options, text("count = 3", "count = 0"), "the plan has no nodes as far as it can be read here"},
		{options, text(`kubeconfig = "admin.conf"`, `sandbox = "cluster"`), "the plan's cluster is a sandbox"},
		{options, map[string]string{"a.join.hcl": planText, "files/settings.yaml": settings + "# " +
			strings.Repeat("x", mostBytes)}, "the files of the plan have more than 1024000 bytes together, which is what an " +
			"object of Kubernetes holds: give " +
			"--plan-image"},
		{with(func(o *Options) { o.PlanImage = "registry.example/plans" }), files,
			`--plan-image "registry.example/plans": it must be a repository such as oci://registry.example/plans/prod`},
		{with(func(o *Options) { o.PlanImage = "oci://registry.example/plans:1" }), files, "without a tag"},
	} {
		p, dir, read := load(t, c.files)
		if _, err := New(c.o, p, dir, read); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	p, dir, read := load(t, files)
	if _, err := New(options, p, filepath.Dir(dir), read); err == nil ||
		!strings.Contains(err.Error(), "the plan reads files outside its folder") {
		t.Error(err)
	}
}

// TestInPod: the plan finds its kubeconfig in a pod where it looks for it.
func TestInPod(t *testing.T) {
	for file, want := range map[string]Path{
		"/src/p/admin.conf":          {At: "/plan/admin.conf", InPlan: "admin.conf"},
		"/src/p/a/b.conf":            {At: "/plan/a/b.conf", InPlan: "a/b.conf"},
		"/home/me/.kube/config":      {At: "/home/nodejoin/.kube/config"},
		"/etc/kubernetes/admin.conf": {At: "/etc/kubernetes/admin.conf"},
	} {
		if d := cmp.Diff(want, inPod(file, "/src/p", "/home/me")); d != "" {
			t.Errorf("%s (-want +have):\n%s", file, d)
		}
	}
}
