package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleetSays runs a command of fleet, and returns what it prints and its exit code.
func (b *linuxBed) fleetSays(ctx context.Context, args ...string) (string, int) {
	b.t.Helper()
	cmd := released(b.t).command(ctx, b.t, append([]string{"fleet"}, args...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		b.t.Fatalf("fleet %v: %v", args, err)
	}
	noSecret(b.t, "fleet", out)
	return string(out), cmd.ProcessState.ExitCode()
}

// fleetDrift waits until a pod of the CronJob has found the file that was altered.
func (b *linuxBed) fleetDrift(ctx context.Context, args []string) {
	b.t.Helper()
	until(ctx, b.t, "the check for drift", func() error {
		out, code := b.fleetSays(ctx, append([]string{"status", "--drift"}, args...)...)
		if code != 2 || !strings.Contains(out, "host-03: drifted\n") ||
			!strings.Contains(out, " is complete: 4 of 4 shards have a result, ") ||
			!strings.Contains(out, " 12 hosts: 11 in sync, 1 not (host-03).\n") {
			return fmt.Errorf("exit code %d\n%s", code, out)
		}
		return nil
	})
	out, code := b.fleetSays(ctx, append([]string{"status"}, args...)...)
	if code != 0 || !strings.Contains(out, "The check for drift of ") {
		b.t.Errorf("exit code %d\n%s", code, out)
	}
	if out := b.fleet(ctx, append([]string{"logs", "--drift", "--shard", "1"}, args...)...); !strings.Contains(out,
		"--- shard 1, pod tools-drift-") {
		b.t.Errorf("logs:\n%s", tail(out))
	}
	b.fleet(ctx, append([]string{"stop"}, args...)...)
}

// fleetNotes: each shard has left an event of the Job, and metrics.
func (b *linuxBed) fleetNotes(ctx context.Context, args []string) {
	b.t.Helper()
	events, err := b.cluster.Client.CoreV1().Events("fleets").List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Job,involvedObject.name=tools,reason=ShardDone"})
	if err != nil {
		b.t.Fatal(err)
	}
	file := filepath.Join(b.t.TempDir(), "fleet.prom")
	b.fleet(ctx, append([]string{"status", "--metrics", file}, args...)...)
	metrics, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	for shard := 1; shard <= fleetShards; shard++ {
		said := slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return strings.HasPrefix(e.Message, fmt.Sprintf("shard %d of %d, apply: done (exit code 0). ", shard, fleetShards))
		})
		want := fmt.Sprintf("nodejoin_run_exit_code{command=\"apply\",environment=\"\",plan=\"tools\",shard=\"%d\"} 0\n",
			shard)
		if !said || !strings.Contains(string(metrics), want) {
			b.t.Errorf("shard %d: event: %v, want %s in\n%s", shard, said, want, metrics)
		}
	}
}

// fleetEnds: the Job controller starts a shard again whose host was locked (7) or did not answer (4), as often as it
// may, and ends the whole Job for a plan that is not valid in the pods (3).
func (b *linuxBed) fleetEnds(ctx context.Context) {
	b.t.Helper()
	dir := func(t *testing.T, text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ends.join.hcl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	held := fmt.Sprintf(`node "host" {
  for_each = { held = %d, silent = %d }
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
  content = CONTENT
}
`, fleetPort, fleetPort+fleetHosts, b.machine.IP()) // nothing listens on the second port
	known := filepath.Join(b.dir, "fleet_hosts")
	text, err := os.ReadFile(known)
	if err != nil {
		b.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	text = fmt.Appendf(text, "%s\n", strings.Replace(line, fmt.Sprintf("]:%d ", fleetPort),
		fmt.Sprintf("]:%d ", fleetPort+fleetHosts), 1))
	if err := os.WriteFile(known, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	unlock := b.lockHost("held")
	ends := func(name string) []string {
		return []string{"--kubeconfig", b.cluster.Kubeconfig, "--namespace", "fleets", "--name", name}
	}
	start := func(name, content string) {
		b.t.Helper()
		b.fleet(ctx, append([]string{"apply", dir(b.t, strings.Replace(held, "CONTENT", content, 1)), "--auto-approve",
			"--image", fleetImage, "--shards", "2", "--retries", "1", "--ssh-key", filepath.Join(b.dir, "id_ed25519"),
			"--known-hosts", known}, ends(name)...)...)
	}
	await := func(name string, wantCode int, want ...string) {
		b.t.Helper()
		until(ctx, b.t, "the Job "+name, func() error {
			out, code := b.fleetSays(ctx, append([]string{"status"}, ends(name)...)...)
			for _, w := range want {
				if code != wantCode || !strings.Contains(out, w) {
					return fmt.Errorf("exit code %d, no %q in\n%s", code, w, out)
				}
			}
			return nil
		})
	}
	start("ends", `"x"`)
	await("ends", 7, "another run held a host or the cluster (exit code 7); the shard starts again, 0 of 1 retries used")
	unlock()
	await("ends", 4, "  done, after 1 retries\n",
		"  a host or the API server did not answer (exit code 4), also after 1 retries\n", "The Job ends has failed (")
	b.t.Setenv("NODEJOIN_VAR_content", "x") // the pods do not have it
	start("wrong", "var.content\n}\nvariable \"content\" {\n  type = string")
	await("wrong", 3, "  the plan or the call is not valid (exit code 3), which ends the Job\n",
		"The Job wrong has failed (PodFailurePolicy: ", "var.content")
	b.t.Setenv("NODEJOIN_VAR_content", "")
}

// lockHost holds the lock of a host, as a run of another program does.
func (b *linuxBed) lockHost(name string) (unlock func()) {
	b.t.Helper()
	at := b.machine.Path("/var/lib/fleet/" + name)
	if err := os.MkdirAll(at, 0o700); err != nil {
		b.t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(at, "apply.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return func() {
		if err := f.Close(); err != nil {
			b.t.Error(err)
		}
	}
}
