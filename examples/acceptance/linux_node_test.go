package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/machine"
	"nodejoin/examples/acceptance/internal/mirror"
	"nodejoin/examples/acceptance/internal/netproxy"
)

const (
	linuxNode    = "lin-1"
	linuxNetwork = "10.89.7" // between the machine and this one
)

// linuxBed is a cluster, and a machine with the distribution's SSH server.
type linuxBed struct {
	t       *testing.T
	name    string // of the node
	dir     string
	cluster *controlplane.Cluster
	machine *machine.Machine
	sshd    string // more of sshd_config
	// controlPlane is the machine of a cluster that kubeadm made; else nil.
	controlPlane *machine.Machine
}

func newLinuxBed(ctx context.Context, t *testing.T, systemd bool) *linuxBed {
	t.Helper()
	return newLinuxBedWith(ctx, t, systemd, controlplane.Options{})
}

// newLinuxBedWith is newLinuxBed for a cluster with other options than the default.
func newLinuxBedWith(ctx context.Context, t *testing.T, systemd bool, o controlplane.Options) *linuxBed {
	t.Helper()
	b := newLinuxBedOn(ctx, t, machine.Options{Name: linuxNode, Systemd: systemd, Network: linuxNetwork}, o)
	b.startSSHD(ctx)
	return b
}

// newLinuxBedOn is newLinuxBedWith for a machine with other options than the default, and without an SSH server.
func newLinuxBedOn(ctx context.Context, t *testing.T, of machine.Options, o controlplane.Options) *linuxBed {
	t.Helper()
	of.Dir = t.TempDir()
	b := &linuxBed{t: t, name: of.Name, dir: t.TempDir()}
	b.machine = startMachine(ctx, t, of)
	o.Address = b.machine.Gateway()
	b.startCluster(ctx, o)
	return b
}

// startCluster starts the cluster of the bed.
func (b *linuxBed) startCluster(ctx context.Context, o controlplane.Options) {
	b.t.Helper()
	o.Components, o.Dir = componentSet(b.t), b.t.TempDir()
	c, err := controlplane.Start(ctx, o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.cluster = c
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Log(c.Logs())
			b.report()
		}
		c.Stop()
	})
}

// startSSHD starts the SSH server on the machine. Its keys are in b.dir, as those of
// startSSHD.
func (b *linuxBed) startSSHD(ctx context.Context) {
	b.t.Helper()
	const dir = "/opt/sshd"
	if err := os.MkdirAll(b.machine.Path(dir), 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.newKey(ctx, "host")
	for _, name := range []string{"host", "host.pub"} {
		b.put(filepath.Join(b.dir, name), dir+"/"+name)
	}
	b.serveSSH(ctx, dir, dir+"/host")
}

// newKey makes a key in b.dir.
func (b *linuxBed) newKey(ctx context.Context, name string) {
	b.t.Helper()
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
		filepath.Join(b.dir, name)).CombinedOutput(); err != nil {
		b.t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
}

// put copies a file to the machine.
func (b *linuxBed) put(from, to string) {
	b.t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		b.t.Fatal(err)
	}
	b.write(to, text)
}

// write writes a file of the machine.
func (b *linuxBed) write(name string, text []byte) {
	b.t.Helper()
	at := b.machine.Path(name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(at, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// serveSSH starts the SSH server with a host key of the machine, and its other files in a folder there.
func (b *linuxBed) serveSSH(ctx context.Context, dir, hostKey string) {
	b.t.Helper()
	b.newKey(ctx, "user")
	b.put(filepath.Join(b.dir, "user.pub"), dir+"/user.pub")
	b.write(dir+"/sshd_config", fmt.Appendf(nil, "ListenAddress %s:22\nHostKey %s\nAuthorizedKeysFile %s/user.pub\n"+
		"StrictModes no\nPidFile none\nPermitRootLogin yes\nUsePAM no\nSubsystem sftp internal-sftp\n%s", b.machine.IP(),
		hostKey, dir, b.sshd))
	public, err := os.ReadFile(b.machine.Path(hostKey + ".pub"))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "known_hosts"), fmt.Appendf(nil, "%s %s", b.machine.IP(), public),
		0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(b.machine.Path("/run/sshd"), 0o755); err != nil { // its privilege separation wants it
		b.t.Fatal(err)
	}
	cmd := b.machine.Command(context.WithoutCancel(ctx), "/usr/sbin/sshd", "-D", "-e", "-f", dir+"/sshd_config")
	log, err := os.Create(filepath.Join(b.dir, "sshd.log")) // a pipe would be held open until the machine ends
	if err != nil {
		b.t.Fatal(err)
	}
	cmd.Stderr = log
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if b.t.Failed() {
			b.t.Logf("--- sshd\n%s", tail(b.read("sshd.log")))
		}
	})
	until(ctx, b.t, "sshd", func() error {
		c, err := net.DialTimeout("tcp", b.machine.IP()+":22", time.Second)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// report logs what helps to understand a failed test.
func (b *linuxBed) report() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, service := range []string{"containerd", "kubelet", "flanneld", "kube-proxy", "nodejoin-node"} {
		text, err := os.ReadFile(b.machine.Path("/var/lib/nodejoin/services/" + service + ".log"))
		if err != nil {
			out, _ := b.machine.Run(ctx, "journalctl", "--unit="+service, "--lines=60", "--output=cat", "--no-pager")
			text = []byte(out)
		}
		b.t.Logf("--- %s\n%s", service, tail(string(text)))
	}
}

// linuxHost is the part of a plan that is about the Linux machine. Some settings are due to the test
// environment: it may have control groups v1, no right to lower oom_score_adj, a nearly full disk, and a
// conntrack table whose size cannot be changed in a network namespace.
func (b *linuxBed) linuxHost() string {
	return b.linuxHostBy(b.overSSH(b.machine.IP()))
}

// overSSH is a connection to a machine with the keys in b.dir.
func (b *linuxBed) overSSH(ip string) string {
	return fmt.Sprintf(`connection "ssh" {
    host        = %q
    user        = "root"
    identity    = [%q]
    known_hosts = [%q]
  }`, ip, filepath.Join(b.dir, "user"), filepath.Join(b.dir, "known_hosts"))
}

func (b *linuxBed) linuxHostBy(connection string) string {
	b.t.Helper()
	return b.linuxHosts(map[string]string{b.name: connection})
}

// linuxHosts is linuxHost for nodes with these connections.
func (b *linuxBed) linuxHosts(connections map[string]string) string {
	b.t.Helper()
	_, artifacts, err := mirror.Make(b.t.Context(), componentSet(b.t), "linux")
	if err != nil {
		b.t.Fatal(err)
	}
	var p strings.Builder
	for _, name := range slices.Sorted(maps.Keys(artifacts)) {
		fmt.Fprintf(&p, "artifact %q {\n  os     = \"linux\"\n  sha256 = %q\n", name, artifacts[name].SHA256)
		if name == mirror.CNIPlugins {
			p.WriteString("  version = \"1.9.1\"\n")
		}
		p.WriteString("}\n")
	}
	p.WriteString(`
profile "linux" {
  os     = "linux"
  labels = { "example.com/pool" = "linux" }
  kubelet {
    config = {
      failCgroupV1 = false
      # Beside a file of kubeadm these are merged with the defaults, so both are named.
      evictionHard = { "nodefs.available" = "1Mi", "imagefs.available" = "1Mi" }
    }
  }
  kube_proxy { config = { conntrack = { maxPerCore = 0, min = 0 } } }
  guard { interval = "10s" }
}
`)
	var nodes []string
	for _, name := range slices.Sorted(maps.Keys(connections)) {
		fmt.Fprintf(&p, "\nnode %q {\n  profile = profile.linux\n  %s\n}\n", name, connections[name])
		nodes = append(nodes, "node."+name)
	}
	fmt.Fprintf(&p, `
step "file" "scores" {
  on      = [%s]
  path    = "/etc/containerd/conf.d/scores.toml"
  content = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\n  restrict_oom_score_adj = true\n"
  after   = ["containerd_dir"]
  before  = ["containerd"]
}
`, strings.Join(nodes, ", "))
	return p.String()
}

// head is the part of a plan that is about the cluster.
func (b *linuxBed) head() string {
	b.t.Helper()
	dir, _, err := mirror.Make(b.t.Context(), componentSet(b.t), "linux")
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf(`
cluster "acceptance" {
  kubernetes   = "1.36.3"
  api_server   = %q
  kubeconfig   = %q
  ca_hash      = %q
  pod_cidr     = %q
  service_cidr = %q
  dns_ip       = %q
  join "bootstrap_token" { ttl = "15m" }
}

runtime "containerd" {
  version     = "2.4.2"
  pause_image = %q
}

network "flannel" {
  version = "0.28.4"
  backend = "vxlan"
  vni     = 4096
  port    = 4789
}

mirror { path = %q }
`, b.cluster.URL, b.cluster.Kubeconfig, b.cluster.CAHash, controlplane.PodCIDR, controlplane.ServiceCIDR,
		controlplane.DNSIP, sandboxImage, dir)
}

func writePlan(t *testing.T, parts ...string) (args []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "acceptance.join.hcl")
	if err := os.WriteFile(file, []byte(strings.Join(parts, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{file}
}

// wantLinuxNode checks a joined Linux node.
func (b *linuxBed) wantLinuxNode(ctx context.Context, driver string) {
	b.t.Helper()
	b.wantLinuxNodeOf(ctx, components.Kubernetes, driver)
}

// wantLinuxNodeOf is wantLinuxNode for a version of Kubernetes.
func (b *linuxBed) wantLinuxNodeOf(ctx context.Context, version, driver string) {
	b.t.Helper()
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, b.name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if i := node.Status.NodeInfo; !ready || i.OperatingSystem != "linux" || i.KubeletVersion != "v"+version ||
		i.ContainerRuntimeVersion != "containerd://v2.4.2" && i.ContainerRuntimeVersion != "containerd://2.4.2" {
		b.t.Errorf("the Node's readiness is %v, its node info %+v", ready, i)
	}
	if node.Labels["example.com/pool"] != "linux" || node.Spec.Unschedulable {
		b.t.Errorf("the Node has labels %v, unschedulable %v", node.Labels, node.Spec.Unschedulable)
	}
	const dir = "/var/lib/kubelet"
	config, err := os.ReadFile(b.machine.Path(dir + "/config.conf.d/50-nodejoin.conf"))
	if errors.Is(err, fs.ErrNotExist) { // it has a join by kubeadm only
		config, err = os.ReadFile(b.machine.Path(dir + "/config.yaml"))
	}
	if err != nil || !strings.Contains(string(config), "cgroupDriver: '"+driver+"'") {
		b.t.Errorf("the kubelet's control groups, want driver %s: %v\n%s", driver, err, config)
	}
	// Both write their rules after they report that they are ready.
	until(ctx, b.t, "the rules of kube-proxy and flanneld", func() error {
		rules, err := b.machine.Run(ctx, "iptables-save")
		if err == nil && (!strings.Contains(rules, "KUBE-SERVICES") || !strings.Contains(rules, "FLANNEL-POSTRTG")) {
			err = fmt.Errorf("the rules are\n%s", tail(rules))
		}
		return err
	})
}

// TestLinuxNodeUnits: one apply makes a machine with systemd and nothing else a Ready node whose services are
// units. A pod runs on it. What the next plan drops is removed. After a leave the machine is as it was.
func TestLinuxNodeUnits(t *testing.T) {
	ctx, cancel := bounded(t, 9*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, true)
	before := b.snapshot()
	args := writePlan(t, withRuntimeConfig(t, b.head(), "5"), b.linuxHost(), linuxExtras)
	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs with %d mutating calls", first.took.Seconds(), first.mutations())
	b.wantLinuxNode(ctx, "systemd")
	for _, service := range []string{"containerd", "kubelet", "flanneld", "kube-proxy", "nodejoin-node"} {
		if _, err := b.machine.Run(ctx, "systemctl", "is-active", "--quiet", service); err != nil {
			t.Error(err)
		}
		if _, err := b.machine.Run(ctx, "systemctl", "is-enabled", "--quiet", service); err != nil {
			t.Error(err)
		}
	}
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)
	wantNothing(ctx, t, args)
	b.wantRestarted(ctx, "kubelet")
	wantNothing(ctx, t, args)
	t.Run("guard", func(t *testing.T) { b.wantGuarded(ctx, t, args) })
	t.Run("refused configuration", func(t *testing.T) { b.wantRefusedConfig(ctx, t) })
	t.Run("less", func(t *testing.T) { args = b.wantLessLinux(ctx, t) })
	b.workloads(ctx)
	b.wantLeft(ctx, append([]string{"--delete-emptydir-data"}, args...), before)
	b.wantNoContainer(ctx)
}

// wantRestarted: systemd restarts a service whose process was killed.
func (b *linuxBed) wantRestarted(ctx context.Context, service string) {
	b.t.Helper()
	pid := func() string {
		out, err := b.machine.Run(ctx, "systemctl", "show", "--property=MainPID", "--value", service)
		if err != nil {
			b.t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	before := pid()
	if _, err := b.machine.Run(ctx, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", service); err != nil {
		b.t.Fatal(err)
	}
	until(ctx, b.t, "another process of "+service, func() error {
		if now := pid(); now == before || now == "0" {
			return fmt.Errorf("the process is %s", now)
		}
		return nil
	})
	until(ctx, b.t, "an answer of the kubelet", func() error {
		c, err := b.machine.Dial(ctx, "tcp", "127.0.0.1:10248")
		if err == nil {
			c.Close()
		}
		return err
	})
}

// TestMixedCluster: one apply of one plan joins a Linux machine over OpenSSH and a
// Windows machine under Wine to one cluster. The kubelets of both log in at a registry with the real credential
// provider of Amazon ECR. The programs of the Linux one go on when their tokens are renewed.
func TestMixedCluster(t *testing.T) {
	ctx, cancel := bounded(t, 9*time.Minute)
	defer cancel()
	b := newLinuxBedWith(ctx, t, false, controlplane.Options{Audit: true})
	toAPI, err := netproxy.StartAt(b.machine.Gateway(), strings.TrimPrefix(b.cluster.URL, "https://"), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(toAPI.Close)
	e := b.startECR(ctx)
	before := b.snapshot()
	w := newBed(ctx, t, b.cluster)
	head := strings.Replace(b.head(), b.cluster.URL, fmt.Sprintf("https://%s:%d", b.machine.Gateway(), toAPI.Port()), 1)
	args := writePlan(t, e.plan(t, head, b.linuxHost(), w.windowsHost()))
	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs with %d mutating calls", first.took.Seconds(), first.mutations())
	w.wantJoined(ctx)
	b.wantLinuxNode(ctx, "cgroupfs")
	renewal := ageTokens(t, b.cluster, toAPI, map[string]string{
		"flanneld":   b.machine.Path("/etc/kubernetes/flannel.token"),
		"kube-proxy": b.machine.Path("/etc/kubernetes/kube-proxy.token")})
	// flanneld on the Linux node has created a route to the pods of the Windows node.
	windows, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "a way to the pods of the Windows node", func() error {
		routes, err := b.machine.Run(ctx, "ip", "route", "show", "dev", "flannel.4096")
		if err == nil && !strings.Contains(routes, windows.Spec.PodCIDR) {
			err = fmt.Errorf("routes of flannel.4096: %q, want %s", routes, windows.Spec.PodCIDR)
		}
		return err
	})
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)
	b.wantVerify(ctx, args)
	b.wantPulledOnLinux(ctx, e)
	w.wantPulledOnWindows(ctx, e)
	renewal.wantRenewed(ctx, t)
	renewal.wantUsed(ctx, t)
	wantNothing(ctx, t, args)
	b.wantLeft(ctx, args, before)
	if _, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{}); err != nil {
		t.Errorf("the Windows node: %v", err)
	}
}

// windowsHost is the part of a plan that is about the Windows machine.
func (b *bed) windowsHost() string {
	b.t.Helper()
	v := b.variables(b.host.Port())
	var p strings.Builder
	for _, name := range slices.Sorted(maps.Keys(v.SHA256)) {
		fmt.Fprintf(&p, "artifact %q {\n  os     = \"windows\"\n  sha256 = %q\n", name, v.SHA256[name])
		if name == mirror.CNIPlugins {
			p.WriteString("  version = \"1.9.1\"\n")
		}
		p.WriteString("}\n")
	}
	fmt.Fprintf(&p, `
profile "windows" {
  os     = "windows"
  labels = { "example.com/pool" = "windows" }
  taint {
    key    = "os"
    value  = "windows"
    effect = "NoSchedule"
  }
}

node %q {
  profile = profile.windows
  connection "ssh" {
    host        = "127.0.0.1"
    port        = %d
    user        = %q
    identity    = [%q]
    known_hosts = [%q]
  }
}
`, nodeName, v.Port, v.User, v.Identity[0], v.KnownHosts[0])
	return p.String()
}
