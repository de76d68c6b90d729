package acceptance_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// hollowLabel marks the Nodes of hollow hosts.
const hollowLabel = "example.com/hollow"

// hollow is many machines that cost little, whose Nodes are in a real cluster: sandboxes that another process serves
// over SSH, and a kubelet for each that does nothing but report whether its service runs. It counts what they were
// told to do, and how many Nodes were out of service at once, without asking nodejoin.
type hollow struct {
	t      *testing.T
	api    kubernetes.Interface
	hosts  hollowHosts
	mirror string // where the artifacts are, as the plan says it

	mu    sync.Mutex
	calls []hollowCall
	out   map[string]bool // Nodes that have been Ready once, and are out of service
	ready map[string]bool // ... have been Ready once
	most  []string        // the most that were out at once
	taken int             // how often a Node was taken out of service
}

// hollowHosts is the first line of examples/bench/hosts, hollowCall one of the further ones.
type (
	hollowHosts struct {
		Hosts []struct {
			Name, Address string
			Port          int
		}
		Key, KnownHosts string
	}
	hollowCall struct {
		Time              time.Time
		Host, Op, Subject string
		Err               string
		OfNodejoin        bool
	}
)

// startHollow starts hosts that listen at address, behind a link; rtt 0 = none.
func startHollow(ctx context.Context, t *testing.T, c *controlplane.Cluster, address string, hosts int,
	rtt time.Duration) *hollow {
	t.Helper()
	h := &hollow{t: t, api: c.Client, out: map[string]bool{}, ready: map[string]bool{}}
	cmd := exec.Command(goBuild(t, "linux", "bench-hosts", "build", "./examples/bench/hosts"),
		"-cheap", fmt.Sprint(hosts), "-address", address, "-rtt", rtt.String())
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(out)
	heard := make(chan struct{})
	t.Cleanup(func() {
		in.Close()
		<-heard
		if err := cmd.Wait(); err != nil {
			t.Errorf("the hosts: %v", err)
		}
	})
	err = lines.Decode(&h.hosts)
	go func() {
		defer close(heard)
		h.listen(ctx, lines)
	}()
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(standIns(t))), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { server.Close() })
	h.mirror = fmt.Sprintf("url = %q", "http://"+l.Addr().String())
	h.watch(ctx)
	return h
}

// listen hears of all calls, and does for each host what its kubelet does.
func (h *hollow) listen(ctx context.Context, lines *json.Decoder) {
	kubelets := map[string]chan hollowCall{}
	var all sync.WaitGroup
	defer all.Wait()
	for {
		var c hollowCall
		if lines.Decode(&c) != nil {
			break // they have ended
		}
		h.mu.Lock()
		h.calls = append(h.calls, c)
		h.mu.Unlock()
		if c.Subject != "kubelet" || c.Err != "" {
			continue
		}
		if kubelets[c.Host] == nil {
			queue := make(chan hollowCall, 1000)
			kubelets[c.Host] = queue
			all.Go(func() {
				for c := range queue {
					h.kubelet(ctx, c)
				}
			})
		}
		kubelets[c.Host] <- c
	}
	for _, queue := range kubelets {
		close(queue)
	}
}

// alter changes a file of a host, as somebody does by hand.
func (h *hollow) alter(host, file string) {
	h.t.Helper()
	f, err := os.OpenFile(filepath.Join(filepath.Dir(h.hosts.Key), host, file), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	_, err = f.WriteString("# by hand\n")
	if err := errors.Join(err, f.Close()); err != nil {
		h.t.Fatal(err)
	}
}

// standIns is the folder of artifacts that sandboxes take for programs.
func standIns(t *testing.T) string {
	t.Helper()
	return filepath.Join(repository(t), "examples", "quickstart", "mirror")
}

// kubelet does what a kubelet does when its service starts or stops.
func (h *hollow) kubelet(ctx context.Context, c hollowCall) {
	var err error
	switch c.Op {
	case "start service":
		err = h.report(ctx, c.Host, corev1.ConditionTrue)
	case "stop service":
		err = h.report(ctx, c.Host, corev1.ConditionFalse)
	}
	if err != nil && ctx.Err() == nil {
		h.t.Errorf("the hollow kubelet of %s: %v", c.Host, err)
	}
}

// report writes what a kubelet reports of its Node, and makes the Node where it is missing.
func (h *hollow) report(ctx context.Context, name string, ready corev1.ConditionStatus) error {
	nodes := h.api.CoreV1().Nodes()
	for {
		n, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && ready == corev1.ConditionTrue {
			n, err = nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				hollowLabel: "", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name}},
				Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: hollowLabel, Effect: corev1.TaintEffectNoSchedule}}}},
				metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
		now := metav1.Now()
		n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem = "v1.36.3", "linux"
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}}
		n.Status.Conditions = append(slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady
		}), corev1.NodeCondition{Type: corev1.NodeReady, Status: ready, Reason: "Hollow", LastHeartbeatTime: now,
			LastTransitionTime: now})
		if _, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// watch counts the Nodes out of service by what the API server reports of each change.
func (h *hollow) watch(ctx context.Context) {
	h.t.Helper()
	nodes := h.api.CoreV1().Nodes()
	list, err := nodes.List(ctx, metav1.ListOptions{LabelSelector: hollowLabel})
	if err != nil {
		h.t.Fatal(err)
	}
	w, err := nodes.Watch(ctx, metav1.ListOptions{LabelSelector: hollowLabel, ResourceVersion: list.ResourceVersion})
	if err != nil {
		h.t.Fatal(err)
	}
	done := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for {
			for e := range w.ResultChan() {
				if n, ok := e.Object.(*corev1.Node); ok {
					h.saw(n, e.Type == watch.Deleted)
					list.ResourceVersion = n.ResourceVersion
				}
			}
			if ctx.Err() != nil {
				return
			}
			// The API server ends each watch after some minutes.
			if w, err = nodes.Watch(ctx, metav1.ListOptions{LabelSelector: hollowLabel,
				ResourceVersion: list.ResourceVersion}); err != nil {
				if ctx.Err() == nil {
					h.t.Errorf("the watch of the Nodes: %v", err)
				}
				return
			}
		}
	}()
	h.t.Cleanup(func() {
		stop()
		w.Stop()
		<-done
	})
}

func (h *hollow) saw(n *corev1.Node, gone bool) {
	out := gone || n.Spec.Unschedulable
	for _, c := range n.Status.Conditions {
		out = out || c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !out && len(n.Status.Conditions) > 0:
		h.ready[n.Name] = true
		delete(h.out, n.Name)
	case out && h.ready[n.Name] && !h.out[n.Name]:
		h.out[n.Name] = true
		h.taken++
		if len(h.out) > len(h.most) {
			h.most = nil
			for name := range h.out {
				h.most = append(h.most, name)
			}
		}
	}
}

// begin forgets what was counted so far.
func (h *hollow) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls, h.most, h.taken = nil, nil, 0
}

// atOnce is how many Nodes were out of service at once since begin, and how often one was taken out.
func (h *hollow) atOnce() (most, taken int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.most), h.taken
}

// made are the calls since begin that changed a machine, by host and call. Those about nodejoin's own folder are left
// out: each run notes itself there.
func (h *hollow) made() map[string]map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]map[string]int{}
	for _, c := range h.calls {
		if c.Err != "" || c.OfNodejoin {
			continue
		}
		if out[c.Host] == nil {
			out[c.Host] = map[string]int{}
		}
		out[c.Host][c.Op+" "+c.Subject]++
	}
	return out
}

// head is the plan but for its nodes, which take artifacts from a mirror. away is how many Nodes may be out of
// service.
func (h *hollow) head(c *controlplane.Cluster, away int) string {
	h.t.Helper()
	var p strings.Builder
	fmt.Fprintf(&p, `cluster "hollow" {
  kubernetes   = "1.36.3"
  api_server   = %q
  kubeconfig   = %q
  ca_hash      = %q
  pod_cidr     = "10.128.0.0/9"
  service_cidr = %q
  dns_ip       = %q
  join "bootstrap_token" { ttl = "15m" }
}
runtime "containerd" { version = "2.2.1" }
network "none" { ready = true }
mirror { %s }
rollout {
  max_unavailable = %d
  max_failures    = 3
}
`, c.URL, c.Kubeconfig, c.CAHash, controlplane.ServiceCIDR, controlplane.DNSIP, h.mirror, away)
	for name, file := range map[string]string{"containerd": "containerd-2.2.1-linux-amd64.tar.gz",
		"kubernetes_node": "kubernetes-node-linux-amd64.tar.gz", "runc": "runc.amd64"} {
		text, err := os.ReadFile(filepath.Join(standIns(h.t), file))
		if err != nil {
			h.t.Fatal(err)
		}
		fmt.Fprintf(&p, "artifact %q {\n  os      = \"linux\"\n  sha256  = \"%x\"\n", name, sha256.Sum256(text))
		if name == "runc" {
			p.WriteString("  version = \"1.3.0\"\n")
		}
		p.WriteString("}\n")
	}
	return p.String()
}

// plan is the plan of the first hosts, Linux nodes. pods is the kubelet's maxPods, away how many Nodes may be out of
// service.
func (h *hollow) plan(c *controlplane.Cluster, hosts, pods, away int) (dir string) {
	h.t.Helper()
	var p strings.Builder
	p.WriteString(h.head(c, away) + "locals { ports = {\n")
	for _, host := range h.hosts.Hosts[:hosts] {
		fmt.Fprintf(&p, "  %q = %d\n", host.Name, host.Port)
	}
	fmt.Fprintf(&p, `} }
node "host" {
  for_each = local.ports
  name     = each.key
  os       = "linux"
  max_pods = %d
  connection "ssh" {
    host = %q
    port = each.value
    user = "root"
  }
}
`, pods, h.hosts.Hosts[0].Address)
	dir = h.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hollow.join.hcl"), []byte(p.String()), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return dir
}

// home is a home folder whose user may log in to the hosts.
func (h *hollow) home() string {
	h.t.Helper()
	dir := h.t.TempDir()
	err := os.Mkdir(filepath.Join(dir, ".ssh"), 0o700)
	for from, to := range map[string]string{h.hosts.Key: "id_ed25519", h.hosts.KnownHosts: "known_hosts"} {
		text, readErr := os.ReadFile(from)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, ".ssh", to), text, 0o600))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return dir
}
