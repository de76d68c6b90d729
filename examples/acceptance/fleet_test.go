package acceptance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	fleetImage  = "localhost/nodejoin:1"
	fleetHosts  = 12
	fleetShards = 4
	fleetPort   = 2201 // SSH port of the first host
)

// fleetReport is the part of `nodejoin fleet status --json` that the test uses.
type fleetReport struct {
	Job struct {
		Active    int
		Suspended bool
		Complete  bool
		Failed    string
	}
	Shards []struct{ Shard, Hosts, Retried int }
	Hosts  []struct {
		Node    string
		Changed []string
		Error   any
	}
}

// TestFleet: a Job of real parts (API server, Job controller, scheduler, kubelet, containerd) applies a plan to hosts
// over SSH, in pods that are restricted, two at a time. Pods are killed meanwhile. Each host converges once, and the
// report has them all. A Job that is stopped is replaced by the next. Another has its plan in a registry.
func TestFleet(t *testing.T) {
	ctx, cancel := bounded(t, 12*time.Minute)
	defer cancel()
	b := newFleetBed(ctx, t)
	plan := b.fleetPlan(ctx)
	args := []string{"--kubeconfig", b.cluster.Kubeconfig, "--namespace", "fleets", "--name", "tools"}
	start := append([]string{"apply", plan, "--auto-approve", "--image", fleetImage, "--shards", fmt.Sprint(fleetShards),
		"--ssh-key", filepath.Join(b.dir, "id_ed25519"), "--known-hosts", filepath.Join(b.dir, "fleet_hosts")}, args...)

	t.Cleanup(func() {
		if t.Failed() {
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			t.Log(b.fleet(after, append([]string{"logs"}, args...)...))
		}
	})
	began := time.Now()
	if out := b.fleet(ctx, start...); !strings.Contains(out, "Started the Job fleets/tools: 4 shards, at most 2 ") {
		t.Errorf("apply: %s", out)
	}
	killed := b.killPods(ctx, 2)
	report := b.awaitFleet(ctx, append([]string{"status", "--json"}, args...))
	t.Logf("%d hosts after %.0fs, with %d pods killed", len(report.Hosts), time.Since(began).Seconds(), killed)
	b.wantConverged(report)
	if out := b.fleet(ctx, append([]string{"status"}, args...)...); !strings.Contains(out,
		"The Job tools is complete: 4 of 4 shards have a result, 0 pods run. 12 hosts: ") {
		t.Errorf("status:\n%s", out)
	}
	if out := b.fleet(ctx, append([]string{"logs"}, args...)...); !strings.Contains(out, "--- shard ") ||
		!strings.Contains(out, `"type":"summary"`) { // a pod that was killed has taken its log with it
		t.Errorf("logs:\n%s", tail(out))
	}

	b.fleetNotes(ctx, args)
	b.fleetElsewhere(ctx)

	b.fleet(ctx, start...)
	if out := b.fleet(ctx, append([]string{"stop"}, args...)...); !strings.Contains(out, "Stopped the Job fleets/to") {
		t.Errorf("stop: %s", out)
	}
	until(ctx, t, "the end of the pods", func() error {
		if r := b.fleetStatus(ctx, append([]string{"status", "--json"}, args...)); r.Job.Active > 0 || !r.Job.Suspended {
			return fmt.Errorf("%+v", r.Job)
		}
		return nil
	})
	b.fleet(ctx, append(start, "--drift", "* * * * *")...)
	b.wantConverged(b.awaitFleet(ctx, append([]string{"status", "--json"}, args...)))
	drifted := b.machine.Path("/var/lib/fleet/host-03.txt")
	if err := os.WriteFile(drifted, []byte("altered\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.fleetEnds(ctx)
	b.fleetDrift(ctx, args)
}

// serveAPI lets pods reach the API server by its service, whose endpoints the API server here does not write.
func (b *linuxBed) serveAPI(ctx context.Context) {
	b.t.Helper()
	u, err := url.Parse(b.cluster.URL)
	if err != nil {
		b.t.Fatal(err)
	}
	number, err := strconv.ParseInt(u.Port(), 10, 32)
	if err != nil {
		b.t.Fatal(err)
	}
	protocol, name, port := corev1.ProtocolTCP, "https", int32(number)
	if _, err := b.cluster.Client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{u.Hostname()}}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}}},
		metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// importNodejoin imports an image with nodejoin, as a release has it.
func (b *linuxBed) importNodejoin(ctx context.Context) {
	b.t.Helper()
	program, err := os.ReadFile(string(released(b.t)))
	if err != nil {
		b.t.Fatal(err)
	}
	layer := tarOf(b.t, map[string][]byte{"nodejoin": program}, "nodejoin")
	importArchive(ctx, b.t, b.machine, imageArchive(b.t, layer, map[string]map[string]any{fleetImage: {
		"Entrypoint": []string{"/nodejoin"}, "User": "65532:65532", "WorkingDir": "/plan",
		"Env": []string{"HOME=/home/nodejoin", "USER=nodejoin", "PATH=/"}}}))
}

// fleetPlan writes a plan for hosts that join nothing, and starts their SSH server: they are one machine, with a port
// and a data folder each.
func (b *linuxBed) fleetPlan(ctx context.Context) (dir string) {
	b.t.Helper()
	dir = b.t.TempDir()
	var hosts, ports, known strings.Builder
	key, err := os.ReadFile(filepath.Join(b.dir, "host.pub"))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range fleetHosts {
		fmt.Fprintf(&hosts, "  %q = %d\n", fmt.Sprintf("host-%02d", i), fleetPort+i)
		fmt.Fprintf(&ports, "Port %d\n", fleetPort+i)
		fmt.Fprintf(&known, "[%s]:%d %s", b.machine.IP(), fleetPort+i, key)
	}
	text := fmt.Sprintf(`locals { ports = {
%s} }
node "host" {
  for_each = local.ports
  os       = "linux"
  data_dir = "/var/lib/fleet/${each.key}"
  connection "ssh" {
    host = %q
    port = each.value
    user = "root"
  }
}
step "file" "marker" {
  path    = "/var/lib/fleet/${self.name}.txt"
  content = "converged\n"
}
`, hosts.String(), b.machine.IP())
	config, err := os.ReadFile(b.machine.Path("/opt/sshd/sshd_config"))
	if err != nil {
		b.t.Fatal(err)
	}
	config = bytes.Replace(config, []byte("ListenAddress "+b.machine.IP()+":22\n"),
		[]byte(ports.String()+"ListenAddress "+b.machine.IP()+"\nMaxStartups 100\n"), 1)
	user, err := os.ReadFile(filepath.Join(b.dir, "user"))
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "fleet.join.hcl"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(b.dir, "fleet_hosts"), []byte(known.String()), 0o600),
		os.WriteFile(filepath.Join(b.dir, "id_ed25519"), user, 0o600),
		os.WriteFile(b.machine.Path("/opt/sshd/fleet_config"), config, 0o600))
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := b.machine.Command(context.WithoutCancel(ctx), "/usr/sbin/sshd", "-D", "-e", "-f", "/opt/sshd/fleet_config")
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(ctx, b.t, "sshd", func() error {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", b.machine.IP(), fleetPort+fleetHosts-1), time.Second)
		if err == nil {
			c.Close()
		}
		return err
	})
	return dir
}

// fleet runs a command that must succeed.
func (b *linuxBed) fleet(ctx context.Context, args ...string) string {
	b.t.Helper()
	cmd := released(b.t).command(ctx, b.t, append([]string{"fleet"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("fleet %v: %v\n%s", args, err, out)
	}
	noSecret(b.t, "fleet", out)
	return string(out)
}

// fleetStatus is the report as it is now, whatever the exit code.
func (b *linuxBed) fleetStatus(ctx context.Context, args []string) (r fleetReport) {
	b.t.Helper()
	reported(ctx, b.t, &r, append([]string{"fleet"}, args...)...)
	return r
}

// awaitFleet waits until the Job has ended.
func (b *linuxBed) awaitFleet(ctx context.Context, args []string) (r fleetReport) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		r = b.fleetStatus(ctx, args)
		if r.Job.Complete || r.Job.Failed != "" {
			return r
		}
		select {
		case <-ctx.Done():
			pods, err := b.cluster.Client.CoreV1().Pods("fleets").List(context.WithoutCancel(ctx), metav1.ListOptions{})
			for _, p := range pods.Items {
				text, _ := json.Marshal(p.Status)
				b.t.Logf("%s: %s", p.Name, tail(string(text)))
			}
			b.t.Fatalf("the Job has not ended: %+v, %v", r.Job, err)
		case <-time.After(300 * time.Millisecond): // between two looks
		}
	}
}

// killPods deletes the first pods that run.
func (b *linuxBed) killPods(ctx context.Context, n int) int {
	b.t.Helper()
	pods := b.cluster.Client.CoreV1().Pods("fleets")
	killed := map[string]bool{}
	until(ctx, b.t, "pods to kill", func() error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=tools"})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodRunning || killed[p.Name] || len(killed) >= n {
				continue
			}
			now := int64(0) // SIGKILL
			if err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil &&
				!apierrors.IsNotFound(err) {
				return err
			}
			killed[p.Name] = true
		}
		if len(killed) < n {
			return fmt.Errorf("%d pods, %d killed", len(list.Items), len(killed))
		}
		return nil
	})
	return len(killed)
}

// wantConverged: each host is in the report once, without an error, and was changed by one run alone.
func (b *linuxBed) wantConverged(r fleetReport) {
	b.t.Helper()
	if !r.Job.Complete || len(r.Shards) != fleetShards || len(r.Hosts) != fleetHosts {
		b.t.Fatalf("%+v", r)
	}
	for i, h := range r.Hosts {
		name := fmt.Sprintf("host-%02d", i)
		if h.Node != name || h.Error != nil {
			b.t.Errorf("%+v", h)
		}
		text, err := os.ReadFile(b.machine.Path("/var/lib/fleet/" + name + ".txt"))
		if err != nil || string(text) != "converged\n" {
			b.t.Errorf("%s: %q, %v", name, text, err)
		}
		var notes []struct{ Changed []string }
		text, err = os.ReadFile(b.machine.Path("/var/lib/fleet/" + name + "/history.json"))
		if err == nil {
			err = json.Unmarshal(text, &notes)
		}
		changed := slices.DeleteFunc(notes, func(n struct{ Changed []string }) bool {
			return !slices.Contains(n.Changed, "marker")
		})
		if err != nil || len(changed) > 1 {
			b.t.Errorf("%s was changed by %d runs: %s, %v", name, len(changed), text, err)
		}
	}
}
