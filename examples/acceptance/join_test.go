package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/netproxy"
)

// network is the HNS network that flanneld makes.
const network = "flannel.4096"

// TestJoinWindowsNode: one apply makes an empty machine a Ready node. A second one changes nothing, even after
// pods have had addresses, and neither does one on the machine itself. Its programs go on when their tokens are
// renewed.
func TestJoinWindowsNode(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startClusterWith(ctx, t, controlplane.Options{Audit: true}))
	toAPI, err := netproxy.Start(strings.TrimPrefix(b.cluster.URL, "https://"), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(toAPI.Close)
	b.apiServer = fmt.Sprintf("https://127.0.0.1:%d", toAPI.Port())
	args := b.variables(b.host.Port()).write(t)

	b.network.LoseNext(time.Second) // it restarts while flannel's network is made
	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs with %d mutating calls", first.took.Seconds(), first.mutations())
	vip := b.wantJoined(ctx)
	b.wantNoCredentialsLeft(ctx)
	b.wantKeysPrivate()
	wantReported(ctx, t, b.cluster, nodeName, "")

	wantNothing(ctx, t, args)
	renewal := ageTokens(t, b.cluster, toAPI, map[string]string{
		"flanneld.exe":   b.host.Path(tokenFolder + `\flannel.token`),
		"kube-proxy.exe": b.host.Path(tokenFolder + `\kube-proxy.token`)})
	t.Run("verify", func(t *testing.T) { b.wantVerify(ctx, t, args) })
	t.Run("addresses", func(t *testing.T) { b.wantNeverGivenOut(ctx, t, vip) })
	renewal.wantRenewed(ctx, t)
	wantNothing(ctx, t, args)
	t.Run("local", func(t *testing.T) { b.wantNothingLocally(ctx) })
	t.Run("logs", func(t *testing.T) { b.wantBundle(ctx, t, args) })
	t.Run("renewal", func(t *testing.T) { renewal.wantUsed(ctx, t) })
	t.Run("doctor", func(t *testing.T) { b.wantDoctor(ctx, t, args) })
	wantNothing(ctx, t, args)
}

// wantJoined checks a joined node from the API server, the HNS and the machine, and returns the source VIP.
func (b *bed) wantJoined(ctx context.Context) net.IP {
	b.t.Helper()
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.wantNode(node)
	b.wantNetwork(node)
	vip := b.wantSourceVIP(ctx, node)
	b.wantHealthy(ctx, "kubelet", 10248)
	b.wantHealthy(ctx, "kube-proxy", 10256)
	return vip
}

func (b *bed) wantNode(node *corev1.Node) {
	b.t.Helper()
	ready := false
	for _, c := range node.Status.Conditions {
		ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if !ready {
		b.t.Errorf("the Node is not Ready: %+v", node.Status.Conditions)
	}
	for key, want := range map[string]string{corev1.LabelOSStable: "windows", "example.com/pool": "windows"} {
		if have := node.Labels[key]; have != want {
			b.t.Errorf("label %s is %q, want %q", key, have, want)
		}
	}
	want := corev1.Taint{Key: "os", Value: "windows", Effect: corev1.TaintEffectNoSchedule}
	found := false
	for _, have := range node.Spec.Taints {
		found = found || have.Key == want.Key && have.Value == want.Value && have.Effect == want.Effect
	}
	if !found {
		b.t.Errorf("taints %v, want %v among them", node.Spec.Taints, want)
	}
	if have := node.Status.NodeInfo.ContainerRuntimeVersion; !strings.HasPrefix(have, "containerd://") {
		b.t.Errorf("container runtime %q", have)
	}
}

// wantNetwork: flanneld's overlay with its VNI in the HNS and on the Node. The port
// is not part of an HNS network; flanneld reads it from net-conf.json and accepts
// only 4789 on Windows.
func (b *bed) wantNetwork(node *corev1.Node) {
	b.t.Helper()
	object := b.network.Network(network)
	if object == nil {
		b.t.Fatalf("the HNS has no network %s", network)
	}
	text, err := json.Marshal(object)
	if err != nil {
		b.t.Fatal(err)
	}
	var have struct {
		Type  string
		Ipams []struct {
			Subnets []struct {
				IPAddressPrefix string
				Policies        []struct {
					Type     string
					Settings struct{ IsolationID int }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &have); err != nil {
		b.t.Fatal(err)
	}
	vni := 0
	if len(have.Ipams) == 1 && len(have.Ipams[0].Subnets) == 1 {
		subnet := have.Ipams[0].Subnets[0]
		if subnet.IPAddressPrefix != node.Spec.PodCIDR {
			b.t.Errorf("subnet of the HNS network %s, want the node's %s", subnet.IPAddressPrefix, node.Spec.PodCIDR)
		}
		for _, p := range subnet.Policies {
			if p.Type == "VSID" {
				vni = p.Settings.IsolationID
			}
		}
	}
	if have.Type != "Overlay" || vni != 4096 {
		b.t.Errorf("HNS network %s: type %q with VNI %d, want Overlay with 4096: %s", network, have.Type, vni, text)
	}
	if data := node.Annotations["flannel.alpha.coreos.com/backend-data"]; !strings.Contains(data, `"VNI":4096`) {
		b.t.Errorf("flanneld announced %q", data)
	}
	var conf struct {
		Backend struct {
			Type      string
			VNI, Port int
		}
	}
	if err := json.Unmarshal(b.read(`C:\etc\kube-flannel\net-conf.json`), &conf); err != nil {
		b.t.Fatal(err)
	}
	if conf.Backend.Type != "vxlan" || conf.Backend.VNI != 4096 || conf.Backend.Port != 4789 {
		b.t.Errorf("net-conf.json: %+v", conf)
	}
}

// wantSourceVIP: kube-proxy has an address of the node's pod subnet that no pod gets.
func (b *bed) wantSourceVIP(ctx context.Context, node *corev1.Node) net.IP {
	b.t.Helper()
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		b.t.Fatal(err)
	}
	var vip string
	for line := range strings.Lines(string(b.read(`C:\etc\kubernetes\kube-proxy.yaml`))) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key == "sourceVip" {
			vip = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	ip := net.ParseIP(vip)
	if ip == nil || !pods.Contains(ip) {
		b.t.Fatalf("source VIP %q of kube-proxy, want one in %s", vip, pods)
	}
	if holder := string(b.read(`C:\var\lib\cni\networks\` + network + `\` + vip)); !strings.HasPrefix(holder,
		"kube-proxy") {
		b.t.Errorf("the source VIP is held by %q", holder)
	}
	// kube-proxy creates the endpoint when it first writes its rules, shortly after it reports that it is
	// healthy.
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for b.network.Endpoint(vip) == nil {
		select {
		case <-ctx.Done():
			b.t.Errorf("the HNS has no endpoint with the source VIP %s: kube-proxy runs without it", vip)
			return ip
		case <-tick.C:
		}
	}
	return ip
}

func (b *bed) wantHealthy(ctx context.Context, what string, port int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/healthz", port), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		b.t.Errorf("%s: %v", what, err)
		return
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		b.t.Errorf("%s: %s", what, answer.Status)
	}
}

// wantNoCredentialsLeft: the credentials of the join are gone from the cluster and the machine, and those of
// the administrator were never on the machine.
func (b *bed) wantNoCredentialsLeft(ctx context.Context) {
	b.t.Helper()
	secrets, err := b.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range secrets.Items {
		if s.Type == corev1.SecretTypeBootstrapToken {
			b.t.Errorf("the bootstrap token %s still exists", s.Name)
		}
	}
	if _, err := os.Stat(b.host.Path(`C:\etc\kubernetes\bootstrap-kubelet.conf`)); !errors.Is(err, fs.ErrNotExist) {
		b.t.Errorf("the bootstrap kubeconfig still exists: %v", err)
	}
	for _, dir := range []string{`C:\etc`, `C:\var`, `C:\k`, `C:\ProgramData`, `C:\Program Files\containerd`} {
		err := filepath.WalkDir(b.host.Path(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".exe" {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "kubernetes-admin") || strings.Contains(string(text), "name: admin") {
				b.t.Errorf("%s contains the administrator's kubeconfig", path)
			}
			return err
		})
		if err != nil {
			b.t.Error(err)
		}
	}
}

// wantKeysPrivate: only the system and administrators may read keys, or enter
// the folders that hold them. Wine maps an access list to the mode of the file here:
// everyone else is "other".
func (b *bed) wantKeysPrivate() {
	b.t.Helper()
	b.wantPrivate(`C:\etc\kubernetes`, `C:\etc\kubernetes\flannel.conf`, `C:\etc\kubernetes\kube-proxy.conf`,
		`C:\etc\kubernetes\flannel.token`, `C:\etc\kubernetes\kube-proxy.token`,
		`C:\var\lib\kubelet\pki`, `C:\var\lib\kubelet\config.yaml`)
	// The kubelet writes its keys itself, into the private folder only.
	err := filepath.WalkDir(b.host.Path(`C:\`), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != ".key" && filepath.Ext(path) != ".pem" {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "PRIVATE KEY") && filepath.Dir(path) != b.host.Path(`C:\var\lib\kubelet\pki`) {
			b.t.Errorf("a private key in %s", path)
		}
		return err
	})
	if err != nil {
		b.t.Error(err)
	}
}

func (b *bed) wantPrivate(paths ...string) {
	b.t.Helper()
	for _, path := range paths {
		info, err := os.Stat(b.host.Path(path))
		if err != nil {
			b.t.Error(err)
		} else if info.Mode()&0o007 != 0 {
			b.t.Errorf("%s: mode %s gives others access", path, info.Mode())
		}
	}
}

func (b *bed) read(windows string) []byte {
	b.t.Helper()
	text, err := os.ReadFile(b.host.Path(windows))
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}
