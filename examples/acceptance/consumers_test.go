package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
)

// matrix are the combinations of versions, networks and Windows releases that the
// fast tests compile, with the plan of one: plan/render/testdata.
func matrix(t *testing.T) (combinations []string, plan string) {
	t.Helper()
	dir := filepath.Join(repository(t), "plan", "render", "testdata")
	list, err := os.ReadFile(filepath.Join(dir, "matrix.golden"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "matrix.plan"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		name, outcome, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Fatalf("matrix.golden: %q", line)
		}
		if !strings.HasPrefix(outcome, "refused") {
			combinations = append(combinations, name)
		}
	}
	return combinations, string(text)
}

// rendered are the files that `nodejoin render` writes for a combination, by their
// path below the node's folder; manifests of the cluster are below _manifests.
func rendered(ctx context.Context, t *testing.T, plan, combination string) map[string]string {
	t.Helper()
	f := strings.Split(combination, ", ")
	kind, version, _ := strings.Cut(f[1], " ")
	values := map[string]string{"KUBERNETES": f[0], "RUNTIME": kind, "RUNTIME_VERSION": version, "BACKEND": f[2],
		"BUILD": f[3], "NAMES": "$NAMES"}
	dir := t.TempDir()
	file, out := filepath.Join(dir, "a.join.hcl"), filepath.Join(dir, "out")
	text := os.Expand(plan, func(name string) string { return values[name] })
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, string(released(t)), "render", "--out", out, file)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", combination, err, b)
	}
	files := map[string]string{}
	err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(out, path)
		files[strings.TrimPrefix(filepath.ToSlash(rel), "win-1/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// artifact is a rendered file with the combinations that have it as it is.
type artifact struct {
	path, content string
	of            []string
}

// distinct puts equal files of the combinations together, in the order of the matrix.
func distinct(ctx context.Context, t *testing.T, want func(combination, path string) bool) []*artifact {
	t.Helper()
	combinations, plan := matrix(t)
	if len(combinations) == 0 {
		t.Fatal("the matrix has no combination that is rendered")
	}
	var all []*artifact
	seen := map[string]*artifact{}
	for _, c := range combinations {
		files := rendered(ctx, t, plan, c)
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if !want(c, path) {
				continue
			}
			key := path + "\x00" + files[path]
			if seen[key] == nil {
				seen[key] = &artifact{path: path, content: files[path]}
				all = append(all, seen[key])
			}
			seen[key].of = append(seen[key].of, c)
		}
	}
	return all
}

// laterValue is what stands for a value that is known only later.
var laterValue = regexp.MustCompile(`\(known after [^)]*\)|\(sensitive\)`)

const (
	containerdFile = "files/C/Program Files/containerd/config.toml"
	netConfFile    = "files/C/etc/kube-flannel/net-conf.json"
	cniFile        = "files/C/etc/cni/net.d/10-flannel.conflist"
	kubeletFile    = "files/C/var/lib/kubelet/config.yaml"
	proxyFile      = "files/C/etc/kubernetes/kube-proxy.yaml"
)

// TestConsumers: what nodejoin renders for the combinations of the matrix is taken by
// the programs that read it. Files of older versions of Kubernetes are checked against
// the tables by the fast tests: their programs are not built here. The rest is that
// of the versions that are; containerd reads the files of older lines by migration.
//
// The programs are started without the flag --windows-service, which the service
// manager has to be there for, and against a machine with nothing else on it: they
// take their flags and file and end at the first thing that is missing.
func TestConsumers(t *testing.T) {
	ctx, cancel := bounded(t, 8*time.Minute)
	defer cancel()
	newest := components.Kubernetes[:strings.LastIndex(components.Kubernetes, ".")+1]
	all := distinct(ctx, t, func(combination, path string) bool {
		switch path {
		case kubeletFile, proxyFile, "services/kubelet.json", "services/kube-proxy.json":
			return strings.HasPrefix(combination, newest)
		}
		return path == containerdFile || path == netConfFile || path == cniFile || strings.HasPrefix(path, "cluster/") ||
			strings.HasPrefix(path, manifestsFolder)
	})
	cluster := startCluster(ctx, t)
	b := newBed(ctx, t, cluster)
	c := &consumers{t: t, bed: b, dir: `C:\consumers`}
	if err := os.MkdirAll(b.host.Path(c.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Client.CoreV1().ServiceAccounts("kube-system").Create(ctx, &account,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.prepareManifests(ctx)
	counts := map[string]int{}
	for _, a := range all {
		counts[a.path]++
		if strings.HasPrefix(a.path, manifestsFolder) {
			c.manifest(ctx, a)
			continue
		}
		switch a.path {
		case containerdFile:
			c.containerd(ctx, a)
		case kubeletFile:
			c.kubelet(ctx, a, all)
		case proxyFile:
			c.kubeProxy(ctx, a)
		case netConfFile:
			c.flanneld(ctx, a)
		case cniFile:
			c.cni(ctx, a)
		case "services/kubelet.json", "services/kube-proxy.json": // with their files
		default:
			c.object(ctx, a)
		}
	}
	for _, path := range []string{containerdFile, kubeletFile, proxyFile, netConfFile, cniFile, "cluster/node.yaml",
		"cluster/bootstrap-token.yaml",
		manifestsFolder + "bootstrap.yaml", manifestsFolder + "flannel.yaml", manifestsFolder + "kube_proxy.yaml",
		manifestsFolder + "runtime_classes.yaml"} {
		t.Logf("%d different %s", counts[path], path)
		if counts[path] == 0 {
			t.Errorf("no combination has %s", path)
		}
	}
}

type consumers struct {
	t   *testing.T
	bed *bed
	dir string // on the machine
}

func (a *artifact) String() string { return fmt.Sprintf("%s of %s", a.path, a.of[0]) }

// program copies a component to the machine and gives its path there.
func (c *consumers) program(name string) string {
	c.t.Helper()
	path := c.dir + `\` + name
	to := c.bed.host.Path(path)
	if _, err := os.Stat(to); err == nil {
		return path
	}
	if err := os.Link(componentSet(c.t).Bin(name), to); err != nil {
		b, err := os.ReadFile(componentSet(c.t).Bin(name))
		if err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	return path
}

// put writes a file of the machine and gives its path there.
func (c *consumers) put(path, content string) string {
	c.t.Helper()
	to := c.bed.host.Path(path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// run runs a program that ends by itself and gives what it says.
func (c *consumers) run(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("%s did not end within a minute", argv[0]))
	defer cancel()
	return c.bed.host.Run(ctx, argv...)
}

var (
	// pauseImage is the value of containerd's file that only the file gives.
	pauseImage = regexp.MustCompile(`'([^']*pause[^']*)'`)
	// unknownKey is what containerd logs of a key that a plugin does not have.
	unknownKey = regexp.MustCompile(`Ignoring unknown key in TOML for plugin.* key="([^"]*)"`)
	// migrated is what it logs of a file of an older schema.
	migrated = "Configuration migrated from version"
)

// containerd reads its file, of its own schema or an older one, and shows what it
// makes of it.
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
		// The key of that line alone; later ones have bin_dirs, also in schema 3
		// (containerd docs/cri/config.md).
		want = []string{"cni bin_dir"}
	}
	out, unknown := run(a.content)
	m := pauseImage.FindStringSubmatch(a.content)
	if m == nil || !strings.Contains(out, m[1]) || !slices.Equal(unknown, want) {
		c.t.Errorf("%s: containerd does not know the keys %q, want %q, or the pause image is not in what it makes of the "+
			"file:\n%s\n%s", a, unknown, want, a.content, tail(out))
	}
	// What is built here is of the newest line, whose own schema needs no migration.
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
			c.t.Errorf("a file that containerd cannot read is not seen:\n%s", tail(out))
		}
	}
}

// lenient is what kubelet and kube-proxy log of a file with fields that they do not
// have (component-base, configfiles and cmd/kube-proxy/app/options.go).
const lenient = "lenient decoding"

// flags of a program in a rendered service, without --windows-service.
func flags(t *testing.T, program, service string) []string {
	t.Helper()
	var s struct {
		Command []string `json:"command"`
	}
	if err := json.Unmarshal([]byte(service), &s); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(s.Command, func(a string) bool { return strings.HasSuffix(a, `\`+program) })
	return slices.DeleteFunc(slices.Clone(s.Command[at+1:]), func(a string) bool { return a == "--windows-service" })
}

// kubelet takes its flags and its file, and ends as there are no credentials.
func (c *consumers) kubelet(ctx context.Context, a *artifact, all []*artifact) {
	const missing = "bootstrap-kubelet.conf"
	file := c.put(`C:\var\lib\kubelet\config.yaml`, a.content)
	run := func(more ...string) string {
		out, err := c.run(ctx, append([]string{c.program("kubelet.exe")}, more...)...)
		if err == nil {
			c.t.Errorf("%s: kubelet ended without an error:\n%s", a, tail(out))
		}
		return out
	}
	for _, s := range all {
		if s.path != "services/kubelet.json" {
			continue
		}
		args := flags(c.t, "kubelet.exe", s.content)
		if out := run(args...); !strings.Contains(out, missing) || strings.Contains(out, lenient) {
			c.t.Errorf("%s: kubelet did not come to the missing credentials, or does not know all of its file:\n%s", a,
				tail(out))
		}
		// A flag and a field that it does not have are seen.
		if out := run(append(args, "--no-such-flag=1")...); !strings.Contains(out, "unknown flag") {
			c.t.Errorf("a flag that kubelet does not have is not seen:\n%s", tail(out))
		}
		c.put(file, a.content+"noSuchField: 1\n")
		if out := run(args...); !strings.Contains(out, lenient) && !strings.Contains(out, "noSuchField") {
			c.t.Errorf("a field that kubelet does not have is not seen:\n%s", tail(out))
		}
		c.put(file, a.content)
	}
}

// kubeProxy takes its file, and ends as there are no credentials.
func (c *consumers) kubeProxy(ctx context.Context, a *artifact) {
	content := laterValue.ReplaceAllString(a.content, "10.244.1.2")
	run := func(content string) string {
		out, err := c.run(ctx, c.program("kube-proxy.exe"), "--config="+c.put(`C:\etc\kubernetes\kube-proxy.yaml`, content))
		if err == nil {
			c.t.Errorf("%s: kube-proxy ended without an error:\n%s", a, tail(out))
		}
		return out
	}
	if out := run(content); !strings.Contains(out, "kube-proxy.conf") || strings.Contains(out, lenient) {
		c.t.Errorf("%s: kube-proxy did not come to the missing credentials, or does not know all of its file:\n%s", a,
			tail(out))
	}
	if out := run(content + "noSuchField: 1\n"); !strings.Contains(out, lenient) &&
		!strings.Contains(out, "noSuchField") {
		c.t.Errorf("a field that kube-proxy does not have is not seen:\n%s", tail(out))
	}
}

// flanneld reads net-conf.json and says which backend it asks for. It is ended then:
// what it does next is for TestJoin.
func (c *consumers) flanneld(ctx context.Context, a *artifact) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute,
		fmt.Errorf("flanneld did not read its file within a minute"))
	defer cancel()
	admin, err := os.ReadFile(c.bed.cluster.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	var want struct{ Backend struct{ Type string } }
	if err := json.Unmarshal([]byte(a.content), &want); err != nil {
		c.t.Errorf("%s: %v", a, err)
		return
	}
	log, err := os.Create(filepath.Join(c.t.TempDir(), "flanneld.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd := c.bed.host.Command(ctx, c.program("flanneld.exe"), "--kube-subnet-mgr",
		"--kubeconfig-file="+c.put(c.dir+`\admin.conf`, string(admin)),
		"--net-config-path="+c.put(c.dir+`\net-conf.json`, a.content), "--subnet-file="+c.dir+`\subnet.env`)
	cmd.Env = append(cmd.Env, "NODE_NAME=win-1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	defer func() { cmd.Process.Kill(); <-ended }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for over := false; ; {
		out, err := os.ReadFile(log.Name())
		if err != nil {
			c.t.Fatal(err)
		}
		if strings.Contains(string(out), "Found network config - Backend type: "+want.Backend.Type) {
			return
		}
		if over {
			c.t.Errorf("%s: flanneld ended:\n%s", a, tail(string(out)))
			return
		}
		select {
		case <-ended:
			over = true // what it wrote last is still to be read
		case <-ctx.Done():
			c.t.Errorf("%s: %v:\n%s", a, context.Cause(ctx), tail(string(out)))
			return
		case <-tick.C:
		}
	}
}

// cni has the plugins add a container as a runtime does. Each reads its
// configuration and hands it on; the last one ends as HNS has no such network.
func (c *consumers) cni(ctx context.Context, a *artifact) {
	var list struct {
		Name    string
		Plugins []map[string]any
	}
	if err := json.Unmarshal([]byte(laterValue.ReplaceAllString(a.content, "10.0.0.0/24")), &list); err != nil ||
		len(list.Plugins) != 1 {
		c.t.Errorf("%s: %d plugins, %v", a, len(list.Plugins), err)
		return
	}
	conf := list.Plugins[0]
	// The flannel plugin that is built here is older than version 1.0.0 of CNI.
	conf["name"], conf["cniVersion"] = list.Name, "0.4.0"
	conf["runtimeConfig"] = map[string]any{"dns": map[string]any{"servers": []string{controlplane.DNSIP}}}
	c.put(`C:\run\flannel\subnet.env`,
		"FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")
	for _, p := range []string{"host-local.exe", "win-overlay.exe", "win-bridge.exe"} {
		c.program(p)
	}
	add := func(conf map[string]any) string {
		text, err := json.Marshal(conf)
		if err != nil {
			c.t.Fatal(err)
		}
		minute, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the CNI plugin still runs after a minute"))
		defer cancel()
		out, err := c.bed.host.RunWith(minute, []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=consumer",
			"CNI_NETNS=6e1a6b5e-3b8f-4a47-9a63-5f1d2e6c7b80", "CNI_IFNAME=eth0", "CNI_PATH=" + c.dir},
			string(text), c.program("flannel.exe"))
		if err == nil {
			c.t.Errorf("%s: the plugin found a network:\n%s", a, tail(out))
		}
		return out
	}
	if out := add(conf); !strings.Contains(out, list.Name) || strings.Contains(out, "parse") ||
		strings.Contains(out, "unmarshal") {
		c.t.Errorf("%s: the plugins did not come to the missing network %s:\n%s", a, list.Name, tail(out))
	}
	delegate := maps.Clone(conf["delegate"].(map[string]any))
	delegate["policies"] = "none"
	conf["delegate"] = delegate
	if out := add(conf); !strings.Contains(out, "unmarshal") && !strings.Contains(out, "parse") &&
		!strings.Contains(out, "load") {
		c.t.Errorf("%s: a configuration that the last plugin cannot read is not seen:\n%s", a, tail(out))
	}
}

// places of the objects that nodejoin makes, in the API.
var places = map[string]string{
	"ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
	"Secret":         "/api/v1/namespaces/kube-system/secrets", "Node": "/api/v1/nodes",
	"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"TokenRequest":       "/api/v1/namespaces/kube-system/serviceaccounts/consumer/token",
}

// account has its tokens asked for.
var account = corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "consumer", Namespace: "kube-system"}}

var kindOf = regexp.MustCompile(`(?m)^kind: (\S+)$`)

// object has the API server take the objects of a file, in a dry run. It refuses
// fields that it does not know.
func (c *consumers) object(ctx context.Context, a *artifact) {
	for _, doc := range strings.Split(laterValue.ReplaceAllString(a.content, "abcdef"), "---\n") {
		m := kindOf.FindStringSubmatch(doc)
		if m == nil || places[m[1]] == "" {
			c.t.Errorf("%s: no place is known for\n%s", a, doc)
			continue
		}
		if m[1] == "TokenRequest" { // of an account that is there
			doc = regexp.MustCompile(`(?m)^  name: .*$`).ReplaceAllString(doc, "  name: "+account.Name)
		}
		post := func(doc string) error {
			raw := c.bed.cluster.Client.CoreV1().RESTClient().Post().AbsPath(places[m[1]]).Param("dryRun",
				"All").Param("fieldValidation", "Strict")
			return raw.SetHeader("Content-Type", "application/yaml").Body([]byte(doc)).Do(ctx).Error()
		}
		if err := post(doc); err != nil {
			c.t.Errorf("%s: %v\n%s", a, err, doc)
		}
		if err := post(doc + "noSuchField: 1\n"); err == nil {
			c.t.Errorf("%s: a field that the API server does not have is not seen", a)
		}
	}
}
