package acceptance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
)

// laterValue matches the placeholder of a value that is known only later.
var laterValue = regexp.MustCompile(`\(known after [^)]*\)|\(sensitive\)`)

const (
	containerdFile = "files/C/Program Files/containerd/config.toml"
	netConfFile    = "files/C/etc/kube-flannel/net-conf.json"
	cniFile        = "files/C/etc/cni/net.d/10-flannel.conflist"
	kubeletFile    = "files/C/var/lib/kubelet/config.yaml"
	proxyFile      = "files/C/etc/kubernetes/kube-proxy.yaml"
)

// TestConsumers: the programs accept the files that nodejoin renders for the combinations of the matrix. The
// programs of older versions of Kubernetes are not built here; the fast tests check their files against the
// tables. containerd reads the files of older versions by migration.
//
// The programs run without the flag --windows-service, which needs the service manager, and on a machine with
// nothing else on it: they read their flags and file, and exit at the first thing that is missing.
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
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "consumer"}} // tokens are bound to it
	if _, err := cluster.Client.CoreV1().Nodes().Create(ctx, &node, metav1.CreateOptions{}); err != nil {
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
	c.configured(ctx)
	c.kubeadm(ctx)
	for _, path := range []string{containerdFile, kubeletFile, proxyFile, netConfFile, cniFile, "cluster/node.yaml",
		"cluster/bootstrap-token.yaml",
		manifestsFolder + "bootstrap.yaml", manifestsFolder + "flannel.yaml", manifestsFolder + "kube_proxy.yaml",
		manifestsFolder + "runtime_classes.yaml"} {
		t.Logf("%d different %s", counts[path], path)
		if counts[path] == 0 {
			t.Errorf("no combination renders %s", path)
		}
	}
}

type consumers struct {
	t   *testing.T
	bed *bed
	dir string // on the machine
}

// program copies a component to the machine and returns its path there.
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

// put writes a file on the machine and returns its path there.
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

// run runs a program until it exits and returns its output.
func (c *consumers) run(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("%s did not end within a minute", argv[0]))
	defer cancel()
	return c.bed.host.Run(ctx, argv...)
}

// lenient is what kubelet and kube-proxy log about a file with fields that they do not have (component-base,
// configfiles and cmd/kube-proxy/app/options.go).
const lenient = "lenient decoding"

// flags returns the flags of a program in a rendered service, without --windows-service.
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

// kubelet checks that the kubelet accepts its flags and its file. It exits because there are no credentials.
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
			c.t.Errorf("%s: kubelet did not get as far as the missing credentials, or does not know every field of "+
				"its file:\n%s", a, tail(out))
		}
		// It reports a flag and a field that it does not have.
		if out := run(append(args, "--no-such-flag=1")...); !strings.Contains(out, "unknown flag") {
			c.t.Errorf("kubelet accepted an unknown flag:\n%s", tail(out))
		}
		c.put(file, a.content+"noSuchField: 1\n")
		if out := run(args...); !strings.Contains(out, lenient) && !strings.Contains(out, "noSuchField") {
			c.t.Errorf("kubelet accepted an unknown field:\n%s", tail(out))
		}
		c.put(file, a.content)
	}
}

// kubeProxy checks that kube-proxy accepts its file. It exits because there are no credentials.
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
		c.t.Errorf("%s: kube-proxy did not get as far as the missing credentials, or does not know every field of "+
			"its file:\n%s", a, tail(out))
	}
	if out := run(content + "noSuchField: 1\n"); !strings.Contains(out, lenient) &&
		!strings.Contains(out, "noSuchField") {
		c.t.Errorf("kube-proxy accepted an unknown field:\n%s", tail(out))
	}
}

const admission = "/apis/admissionregistration.k8s.io/v1/"

// places are the API paths of the objects that nodejoin creates.
var places = map[string]string{
	"ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
	"Secret":         "/api/v1/namespaces/kube-system/secrets", "Node": "/api/v1/nodes",
	"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"Role":               "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
	"RoleBinding":        "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
	"TokenRequest":       "/api/v1/namespaces/kube-system/serviceaccounts/consumer/token",

	"ValidatingAdmissionPolicy":        admission + "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": admission + "validatingadmissionpolicybindings",
}

// account is the service account whose tokens are requested.
var account = corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "consumer", Namespace: "kube-system"}}

var kindOf = regexp.MustCompile(`(?m)^kind: (\S+)$`)

// object creates the objects of a file, in a dry run. The API server refuses unknown fields.
func (c *consumers) object(ctx context.Context, a *artifact) {
	for _, doc := range strings.Split(laterValue.ReplaceAllString(a.content, "abcdef"), "---\n") {
		m := kindOf.FindStringSubmatch(doc)
		if m == nil || places[m[1]] == "" {
			c.t.Errorf("%s: the API server has no resource for\n%s", a, doc)
			continue
		}
		if m[1] == "TokenRequest" { // of an existing account, bound to an existing Node
			doc = regexp.MustCompile(`(?m)^( +)name: .*$`).ReplaceAllString(doc, "${1}name: "+account.Name)
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
			c.t.Errorf("%s: the API server accepted an unknown field", a)
		}
	}
}
