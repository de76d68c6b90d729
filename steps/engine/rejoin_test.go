package engine_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

const (
	kubeletConf = `C:\etc\kubernetes\kubelet.conf`
	clientCert  = `C:\var\lib\kubelet\pki\kubelet-client-current.pem`
)

// node returns the Node of the first machine.
func (w *world) node(name string) kube.Node {
	w.t.Helper()
	n, err := w.cluster().Node(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) deleteNode(name string) {
	w.t.Helper()
	if err := w.cluster().DeleteNode(w.t.Context(), name, w.node(name).UID); err != nil {
		w.t.Fatal(err)
	}
}

// otherSubnet makes the cluster assign another part of the pod network to the next Node of that name.
func (w *world) otherSubnet(name, subnet string) {
	w.t.Helper()
	path := filepath.Join(w.known().Cluster.Sandbox, "cluster.json")
	raw, err := os.ReadFile(path)
	var state map[string]any
	if err = errors.Join(err, json.Unmarshal(raw, &state)); err != nil {
		w.t.Fatal(err)
	}
	state["subnets"].(map[string]any)[name] = subnet
	raw, err = json.Marshal(state)
	if err = errors.Join(err, os.WriteFile(path, raw, 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(path string) string {
	w.t.Helper()
	h, _ := w.box()
	rc, err := h.Open(w.t.Context(), path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// credentials returns a kubeconfig with a client certificate of a node, from a CA that no cluster knows, and the same
// certificate as the kubelet stores it.
func credentials(t *testing.T, server, node string, life time.Duration) (conf, pair string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "system:node:" + node,
		Organization: []string{"system:nodes"}},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	b64 := base64.StdEncoding.EncodeToString
	return `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"` +
		server + `","certificate-authority-data":"` + b64(cert) +
		`"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],` +
		`"users":[{"name":"c","user":{"client-certificate-data":"` + b64(cert) + `","client-key-data":"` +
		b64(private) + `"}}]}`, string(cert) + string(private)
}

func (w *world) put(path, text string) {
	w.t.Helper()
	h, _ := w.box()
	if err := h.WriteFile(w.t.Context(), path, strings.NewReader(text),
		host.WriteOptions{Access: host.AccessPrivate}); err != nil {
		w.t.Fatal(err)
	}
}

// wantJoined checks that the Node is Ready, annotated and accepts pods, and that the machine uses the Node's network.
func (w *world) wantJoined(name string) {
	w.t.Helper()
	n := w.node(name)
	if !n.Ready || n.Unschedulable || n.Annotations[kube.PlanOf] != w.known().Cluster.Name {
		w.t.Errorf("the Node is %+v", n)
	}
	if n.Labels["example.com/pool"] != "windows" || len(n.Taints) != 1 {
		w.t.Errorf("labels %v, taints %v", n.Labels, n.Taints)
	}
	if n.Annotations["flannel.alpha.coreos.com/public-ip"] == "" {
		w.t.Errorf("flanneld has not announced itself at the Node: %v", n.Annotations)
	}
	gateway := strings.Replace(n.PodCIDR, ".0/24", ".1/24", 1)
	if text := w.read(`C:\run\flannel\subnet.env`); !strings.Contains(text, "FLANNEL_SUBNET="+gateway) {
		w.t.Errorf("subnet.env is of another network than %s:\n%s", n.PodCIDR, text)
	}
	h, _ := w.box()
	vip := strings.Replace(n.PodCIDR, ".0/24", ".2", 1)
	if text := w.read(`C:\etc\kubernetes\kube-proxy.yaml`); !strings.Contains(text, vip) {
		w.t.Errorf("kube-proxy has no source VIP of %s:\n%s", n.PodCIDR, text)
	}
	net, err := h.HNSNetwork(w.t.Context(), "flannel.4096")
	if err != nil || !slices.Equal(net.Subnets, []string{n.PodCIDR}) {
		w.t.Errorf("the HNS network is %+v, %v", net, err)
	}
}

// TestRejoin: a node joins again without manual help, whatever an earlier life of the machine or of the Node left
// behind, and the run after that finds no changes.
func TestRejoin(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, w *world)
		node   string
	}{
		{"Node deleted", func(t *testing.T, w *world) { w.deleteNode("win-1") }, "win-1"},
		{"Node deleted, then another pod CIDR", func(t *testing.T, w *world) {
			w.deleteNode("win-1")
			w.otherSubnet("win-1", "10.244.77.0/24")
		}, "win-1"},
		{"Node created again by a restart of the kubelet", func(t *testing.T, w *world) {
			w.deleteNode("win-1")
			w.otherSubnet("win-1", "10.244.78.0/24")
			h, _ := w.box()
			for _, err := range []error{h.StopService(t.Context(), "kube-proxy"),
				h.StopService(t.Context(), "kubelet"), h.StartService(t.Context(), "kubelet"),
				h.StartService(t.Context(), "kube-proxy")} {
				if err != nil {
					t.Fatal(err)
				}
			}
			w.node("win-1")
		}, "win-1"},
		{"after a leave", func(t *testing.T, w *world) {
			if _, sum := w.leave(-1, engine.LeaveOptions{}); sum.Hosts[0].Err != nil {
				t.Fatal(sum.Hosts[0].Err)
			}
		}, "win-1"},
		{"leave interrupted", func(t *testing.T, w *world) { w.leave(20, engine.LeaveOptions{}) }, "win-1"},
		{"snapshot from before the leave", func(t *testing.T, w *world) {
			_, dir := w.box()
			kept := filepath.Join(t.TempDir(), "kept")
			if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if _, sum := w.leave(-1, engine.LeaveOptions{}); sum.Hosts[0].Err != nil {
				t.Fatal(sum.Hosts[0].Err)
			}
			w.otherSubnet("win-1", "10.244.79.0/24")
			if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(kept))); err != nil {
				t.Fatal(err)
			}
		}, "win-1"},
		{"machine set up again", func(t *testing.T, w *world) {
			_, dir := w.box()
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, "win-1"},
		{"certificate expired", func(t *testing.T, w *world) {
			conf, _ := credentials(t, "https://10.0.0.10:6443", "win-1", -time.Hour)
			w.put(kubeletConf, conf)
			w.deleteNode("win-1")
		}, "win-1"},
		{"certificate of a foreign authority", func(t *testing.T, w *world) {
			conf, pair := credentials(t, "https://10.0.0.10:6443", "win-1", time.Hour)
			w.put(kubeletConf, conf)
			w.put(clientCert, pair)
			w.deleteNode("win-1")
		}, "win-1"},
		{"another name", func(t *testing.T, w *world) { w.edit(`"win-1" =`, `"win-9" =`) }, "win-9"},
		{"another cluster", func(t *testing.T, w *world) {
			w.edit(`(?m)^  sandbox .*`, `  sandbox = ".sandbox/other"`)
			w.edit(`"10.244.0.0/16"`, `"10.200.0.0/16"`)
		}, "win-1"},
		{"address of the API server", func(t *testing.T, w *world) {
			w.edit(`https://10.0.0.10:6443`, `https://10.0.0.11:6443`)
		}, "win-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.edit(`, "win-2" = "192.0.2.12"`, "")
			w.mustConverge()
			w.wantJoined("win-1")
			before := w.node("win-1").UID
			c.damage(t, w)
			w.mustConverge()
			w.wantJoined(c.node)
			if c.name == "leave interrupted" && w.node(c.node).UID != before {
				t.Error("the Node is another one")
			}
			w.mustBeQuiet()
			// nodejoin removes all of it.
			if _, sum := w.leave(-1, engine.LeaveOptions{}); sum.Hosts[0].Err != nil || len(sum.Hosts[0].Files) > 0 {
				t.Errorf("leave: %v, %v", sum.Hosts[0].Err, sum.Hosts[0].Files)
			}
		})
	}
}

// TestForeignCredentialsComeBack: credentials that an earlier owner left on the machine are backed up by the join and
// restored by the leave.
func TestForeignCredentialsComeBack(t *testing.T) {
	w := newWorld(t)
	w.one = true
	h, dir := w.box()
	conf, pair := credentials(t, "https://192.0.2.200:6443", "theirs", time.Hour)
	w.put(`C:\ProgramData\theirs.txt`, "theirs")
	w.put(kubeletConf, conf)
	w.put(clientCert, pair)
	if err := h.Mkdir(t.Context(), `C:\var\lib\kubelet\pki`, host.AccessPrivate); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	w.mustConverge()
	w.wantJoined("win-1")
	w.mustBeQuiet()
	if _, sum := w.leave(-1, engine.LeaveOptions{}); sum.Hosts[0].Err != nil {
		t.Fatal(sum.Hosts[0].Err)
	}
	if d := cmp.Diff(before, snapshot(t, dir)); d != "" {
		t.Errorf("the machine before the join (-) and after the leave (+):\n%s", d)
	}
}

// TestNameOfAnother: a machine with the name of another machine's Ready Node is refused before anything is changed,
// and the error says what to do.
func TestNameOfAnother(t *testing.T) {
	w := newWorld(t)
	w.edit(`, "win-2" = "192.0.2.12"`, "")
	w.mustConverge()
	theirs := w.node("win-1")
	w.edit(`"192.0.2.11"`, `"192.0.2.31"`)
	w.edit(`\.sandbox/\$\{each.key\}`, `.sandbox/new`)
	r, sum := w.apply(-1)
	e := refusal(t, r)
	if e.Summary != "another machine has the node's name" ||
		!strings.Contains(e.Remedy, "kubectl delete node win-1") || sum.Hosts[0].Err == nil {
		t.Errorf("refused with %+v, %v", e, sum.Hosts[0].Err)
	}
	if n := w.calls.Load(); n != 0 {
		t.Errorf("%d mutating calls", n)
	}
	if d := cmp.Diff(theirs, w.node("win-1")); d != "" {
		t.Error(d)
	}
}

// TestFormerNetwork: a network that flanneld made for an earlier plan is removed when the new one is made.
func TestFormerNetwork(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	w.edit(`backend = "vxlan"`, "backend = \"vxlan\"\n  vni = 4100")
	w.mustConverge()
	h, _ := w.box()
	ctx := context.Background()
	if _, err := h.HNSNetwork(ctx, "flannel.4096"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the earlier network: %v", err)
	}
	if _, err := h.HNSNetwork(ctx, "flannel.4100"); err != nil {
		t.Error(err)
	}
	w.mustBeQuiet()
	if _, sum := w.leave(-1, engine.LeaveOptions{}); sum.Hosts[0].Err != nil {
		t.Error(sum.Hosts[0].Err)
	}
}

// TestCordonOutlivesItsRun: a run cordons a Node and dies after its last step. The next run uncordons the Node, though
// it has nothing else to do.
func TestCordonOutlivesItsRun(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	if err := w.cluster().Cordon(t.Context(), "win-1", "upgrade"); err != nil {
		t.Fatal(err)
	}
	if r := w.check(); r.Pending() != 1 {
		t.Errorf("%d steps have something to do, want 1", r.Pending())
	}
	w.mustConverge()
	w.wantJoined("win-1")
	w.mustBeQuiet()
}

// TestCordonOfAPersonAfterOurs: a run leaves a Node cordoned; a person uncordons it, and later cordons it for another
// reason. That cordon stays, and the note of the run is removed.
func TestCordonOfAPersonAfterOurs(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	c := w.cluster()
	for _, err := range []error{c.Cordon(t.Context(), "win-1", "upgrade"),
		c.SetUnschedulable(t.Context(), "win-1", false), c.SetUnschedulable(t.Context(), "win-1", true)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if sum := w.mustConverge(); len(sum.Hosts[0].Changed) != 1 || sum.Hosts[0].Changed[0] != "joined" {
		t.Errorf("changed: %v", sum.Hosts[0].Changed)
	}
	n, err := c.Node(t.Context(), "win-1")
	if _, noted := n.Annotations[kube.CordonedBy]; err != nil || !n.Unschedulable || noted {
		t.Errorf("unschedulable %v, noted %v, %v", n.Unschedulable, noted, err)
	}
	w.mustBeQuiet()
}

// TestPruneKilled: a prune that is killed after any of its calls is completed by the next one. Nodes that a run skips
// are not former nodes.
func TestPruneKilled(t *testing.T) {
	w := newWorld(t)
	w.mustConverge()
	if r := w.check(); len(r.Former) > 0 {
		t.Fatalf("before: %+v", r.Former)
	}
	w.edit(`, "win-2" = "192.0.2.12"`, "")
	if err := w.cluster().AddPod(t.Context(), "win-2", kube.Pod{Namespace: "d", Name: "web", Controller: "ReplicaSet"},
		""); err != nil {
		t.Fatal(err)
	}
	runs := 0
	for done := false; !done; runs++ {
		if runs == 10 {
			t.Fatal("not done after 10 runs")
		}
		s := w.session(w.compile())
		w.limit = -1
		r := s.Check(t.Context())
		if len(r.Former) != 1 || r.Former[0].Name != "win-2" {
			t.Fatalf("run %d: %+v", runs, r.Former)
		}
		w.calls.Store(0)
		w.limit = 1
		out := s.Prune(t.Context(), r)
		s.Close()
		if done = out[0].Err == nil; !done && !errors.Is(out[0].Err, errKilled) {
			t.Fatalf("run %d, %s: %v", runs, out[0].Failed, out[0].Err)
		}
	}
	w.limit = -1
	if _, err := w.cluster().Node(t.Context(), "win-2"); runs < 3 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after %d runs: %v", runs, err)
	}
	w.mustBeQuiet()
}
