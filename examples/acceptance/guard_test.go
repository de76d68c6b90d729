package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What nodejoin-node may take while all is in order.
const (
	idleWindow = time.Minute            // one check, and six looks at HNS
	idleCPU    = 300 * time.Millisecond // in idleWindow: 0.5 % of a core
	idleMemory = 30 << 20               // bytes that are its own
)

// wantIdleGuard reads the processor time of nodejoin-node at two moments, and its memory.
func (b *bed) wantIdleGuard(ctx context.Context, t *testing.T) {
	pid := processWith(t, "nodejoin-agent.exe", "--steps")
	before := processorTime(t, pid)
	select {
	case <-time.After(idleWindow):
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
	used, own, all := processorTime(t, pid)-before, memory(t, pid, "RssAnon"), memory(t, pid, "VmRSS")
	t.Logf("nodejoin-node took %v of processor time in %v (%.2f %% of a core), and has %.1f MiB (%.1f MiB with what it "+
		"shares)", used, idleWindow, 100*used.Seconds()/idleWindow.Seconds(), float64(own)/(1<<20), float64(all)/(1<<20))
	if used > idleCPU {
		t.Errorf("it may take %v", idleCPU)
	}
	if own > idleMemory {
		t.Errorf("it may have %d MiB", idleMemory>>20)
	}
}

// processWith is the process whose command line has these texts.
func processWith(t *testing.T, texts ...string) int {
	t.Helper()
	return process(t, fmt.Sprintf("%q in its command line", texts), func(line string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
	})
}

// processOf is the process of a program of a node, "kubelet" or "kubelet.exe".
func processOf(t *testing.T, program string) int {
	t.Helper()
	return process(t, "the program "+program, func(line string) bool {
		path, _, _ := strings.Cut(line, "\x00")
		return path[strings.LastIndexAny(path, `/\`)+1:] == program
	})
}

// process is the process whose command line is wanted. Its arguments end with NUL.
func process(t *testing.T, what string, wanted func(line string) bool) int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err == nil && wanted(string(line)) {
			found, err = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		}
		// A process that ends meanwhile has no file, or no longer the file that was opened (ESRCH).
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Fatalf("no process has %s", what)
	}
	return found
}

// processorTime is the time that all threads of a process have run (proc(5), stat: utime and stime, in hundredths of a
// second).
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	sum := 0
	for _, i := range []int{14 - 3, 15 - 3} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

// memory is a line of /proc/PID/status, in bytes.
func memory(t *testing.T, pid int, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB$`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("no %s in\n%s", name, text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// networkWait bounds the time from a restart of HNS until pods have their network again.
const networkWait = time.Minute

// kubeProxyLog has a line with proxyStarts for each start of kube-proxy.
const (
	kubeProxyLog = `C:\var\log\kube-proxy\kube-proxy.log`
	proxyStarts  = `"Version info"`
)

// wantNetworkBack: HNS restarts and has lost all networks, endpoints and load balancers. Within a minute the node has
// made the pods' network again, and kube-proxy, which was restarted once, its endpoint and load balancers.
func (b *bed) wantNetworkBack(ctx context.Context, t *testing.T, args []string) {
	bound, cancel := context.WithTimeoutCause(ctx, networkWait, fmt.Errorf("not done within %v", networkWait))
	defer cancel()
	b.addService(bound, t)
	for b.network.Count("LoadBalancer") == 0 {
		b.wait(bound, "kube-proxy has made no load balancer")
	}
	had := b.network.Count("LoadBalancer")
	starts := strings.Count(string(b.read(kubeProxyLog)), proxyStarts)
	behind := len(b.bootLog())
	lost := time.Now()
	bound, cancel = context.WithTimeoutCause(ctx, networkWait, fmt.Errorf("not done within %v", networkWait))
	defer cancel()
	b.network.Reset(2 * time.Second)
	for !strings.Contains(b.bootLog()[behind:], "everything is in order") || b.network.Network(network) == nil ||
		b.network.Count("LoadBalancer") < had {
		b.wait(bound, fmt.Sprintf("network %v, load balancers %d of %d; the log: %s", b.network.Network(network),
			b.network.Count("LoadBalancer"), had, tail(b.bootLog()[behind:])))
	}
	t.Logf("the network is back %.1fs after HNS has lost it:\n%s", time.Since(lost).Seconds(), b.bootLog()[behind:])
	b.wantJoined(ctx)
	b.wantCloudRoutes("after the restart of HNS")
	if n := strings.Count(string(b.read(kubeProxyLog)), proxyStarts) - starts; n != 1 {
		t.Errorf("kube-proxy was started %d times, want once", n)
	}
	wantNothing(ctx, t, args)
}

// addService adds a Service of a server outside the cluster, for which kube-proxy makes load balancers.
func (b *bed) addService(ctx context.Context, t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "outside", Namespace: "default"}
	_, err := b.cluster.Client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: meta,
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: meta.Name}
	name, port, ready := "http", int32(8080), true
	_, err = b.cluster.Client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"198.51.100.7"},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
