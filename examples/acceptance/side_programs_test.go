package acceptance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/mirror"
)

// sidePrograms are changes that add programs beside those of Kubernetes to the example plan: nssm runs the
// services, crictl is installed, csi-proxy and windows_exporter are services. The exporter uses a collector
// that works under Wine, and the plan's textfile collector.
var sidePrograms = []string{
	`runtime "containerd" { version = "2.4.2" }`,
	fmt.Sprintf("runtime \"containerd\" {\n  version = \"2.4.2\"\n  crictl  = %q\n}", components.Crictl),
	`artifact "flanneld" { sha256 = try(var.sha256["flanneld"], null) }`,
	`artifact "flanneld" { sha256 = var.sha256["flanneld"] }
artifact "crictl" { sha256 = var.sha256["crictl"] }
artifact "csi_proxy" { sha256 = var.sha256["csi_proxy"] }
artifact "windows_exporter" { sha256 = var.sha256["windows_exporter"] }
artifact "nssm" {
  version = "` + components.NSSM + `.0"
  sha256  = var.sha256["nssm"]
}`,
	`os     = "windows"`, `os     = "windows"
  csi_proxy {
    version      = "` + components.CSIProxy + `"
    working_dirs = ["C:\\storage"]
  }
  windows_exporter {
    version      = "` + components.WindowsExporter + `"
    collectors   = ["cs"]
    textfile_dir = "C:\\metrics"
  }
  services {
    manager       = "nssm"
    restart_delay = "1s"
  }`,
}

// TestSidePrograms: a node whose services nssm runs, with crictl, csi-proxy and windows_exporter beside them.
// They work, nssm restarts a kubelet that was killed, a second apply changes nothing. Then they, nssm and vxlan
// are removed from the plan, and a leave removes the rest.
func TestSidePrograms(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	_, artifacts, err := mirror.Make(ctx, componentSet(t), mirror.SidePrograms)
	if err != nil {
		t.Fatal(err)
	}
	v := b.variables(b.host.Port())
	for name, a := range artifacts {
		v.SHA256[name] = a.SHA256
	}
	args := v.with(t, planWith(t, sidePrograms...))
	before := b.everything(ctx)

	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs", first.took.Seconds())
	b.wantJoined(ctx)
	wantNothing(ctx, t, args)
	t.Run("crictl", func(t *testing.T) { b.wantCrictl(ctx, t) })
	t.Run("windows_exporter", func(t *testing.T) { b.wantMetrics(ctx, t) })
	t.Run("csi-proxy", func(t *testing.T) { b.wantMkdir(ctx, t) })
	t.Run("nssm", func(t *testing.T) { b.wantKubeletAgain(ctx, t) })
	wantNothing(ctx, t, args)
	b.wantRemovals(ctx, t, v, before)

	left := released(t).run(ctx, t, "leave", append([]string{"--target", nodeName}, args...), nil)
	if left.code != 0 {
		t.Fatalf("leave: %s", left)
	}
	if d := different(before, b.everything(ctx)); len(d) > 0 {
		t.Errorf("the machine is not what it was before the join:\n%s", strings.Join(d[:min(len(d), 60)], "\n"))
	}
	t.Logf("left after %.1fs", left.took.Seconds())
	if _, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node after the leave: %v", err)
	}
}

// wantCrictl: crictl finds the configuration beside it and talks to containerd over the pipe in it.
func (b *bed) wantCrictl(ctx context.Context, t *testing.T) {
	t.Helper()
	out := b.ask(ctx, t, `C:\k\crictl.exe`, "info")
	// First crictl warns that the user has no configuration.
	start := strings.Index(out, "{")
	if start < 0 || !strings.Contains(out[:start], `trying next: \"C:\\\\k\\\\crictl.yaml\"`) {
		t.Fatalf("crictl info: %s", out)
	}
	var info struct {
		Status struct {
			Conditions []struct {
				Type   string
				Status bool
			}
		}
	}
	if err := json.Unmarshal([]byte(out[start:]), &info); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ready := map[string]bool{}
	for _, c := range info.Status.Conditions {
		ready[c.Type] = c.Status
	}
	if !ready["RuntimeReady"] || !ready["NetworkReady"] {
		t.Errorf("crictl info: conditions %v, want RuntimeReady and NetworkReady", ready)
	}
}

// ask runs a program of the machine and returns its output. Under Wine a Go program may hang when it exits; its
// output until then counts.
func (b *bed) ask(ctx context.Context, t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := b.host.Run(ctx, argv...)
	if err != nil {
		t.Log(err)
	}
	return out
}

// wantMetrics: windows_exporter serves the metrics of its collectors, including the textfile collector.
func (b *bed) wantMetrics(ctx context.Context, t *testing.T) {
	t.Helper()
	file := b.host.Path(`C:\metrics\test.prom`)
	if err := os.WriteFile(file, []byte("nodejoin_test 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := get(ctx, t, "http://127.0.0.1:9182/metrics")
	for _, want := range []string{"windows_exporter_collector_success{collector=\"cs\"} 1\n", "windows_cs_hostname{",
		"nodejoin_test 1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the metrics:\n%s", want, tail(text))
		}
	}
	if err := os.Remove(file); err != nil { // else leave would let the folder stay
		t.Error(err)
	}
}

func get(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantMkdir: csi-proxy does what a storage plugin asks for in the folders of the kubelet and the plan, and
// nowhere else.
func (b *bed) wantMkdir(ctx context.Context, t *testing.T) {
	t.Helper()
	program, err := os.ReadFile(componentSet(t).Bin("csi-proxy-mkdir.exe"))
	if err == nil {
		err = os.WriteFile(b.host.Path(mkdirProgram), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, allowed := range map[string]bool{`C:\var\lib\kubelet\plugins\example\a`: true, `C:\storage\a`: true,
		`C:\k\a`: false} {
		out := b.ask(ctx, t, mkdirProgram, path)
		want := "made\n"
		if !allowed {
			want = "not made: "
		}
		if _, err := os.Stat(b.host.Path(path)); !strings.HasPrefix(out, want) || allowed != (err == nil) {
			t.Errorf("csi-proxy was asked to create %s (allowed: %t); it says %q; %v", path, allowed, out, err)
		}
	}
	for _, path := range []string{mkdirProgram, `C:\storage`} {
		if err := os.RemoveAll(b.host.Path(path)); err != nil {
			t.Error(err)
		}
	}
}

const mkdirProgram = `C:\csi-proxy-mkdir.exe`

// wantKubeletAgain: nssm restarts a kubelet that was killed, after the delay of the plan, with the same
// arguments and log.
func (b *bed) wantKubeletAgain(ctx context.Context, t *testing.T) {
	t.Helper()
	const log = `C:\var\log\kubelet\kubelet.log`
	starts := func() int { return strings.Count(string(b.read(log)), `"Kubelet version"`) }
	before := starts()
	if before == 0 {
		t.Fatalf("%s says nothing of a start:\n%s", log, tail(string(b.read(log))))
	}
	if out, err := b.host.Run(ctx, "taskkill", "/f", "/im", "kubelet.exe"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for starts() == before || !answers(ctx, "http://127.0.0.1:10248/healthz") {
		select {
		case <-ctx.Done():
			t.Fatalf("the kubelet was started %d times, and is still not healthy", starts())
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
