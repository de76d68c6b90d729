package acceptance_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/hns"
)

// refusingProxy is a proxy that records requests and refuses all of them.
type refusingProxy struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // HOST:PORT
}

func newRefusingProxy(t *testing.T) *refusingProxy {
	p := &refusingProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.Host)
		p.mu.Unlock()
		http.Error(w, "nothing gets through here", http.StatusForbidden)
	}))
	t.Cleanup(p.Close)
	return p
}

// all returns the requests so far.
func (p *refusingProxy) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// wasAsked reports whether the proxy was asked for the host.
func (p *refusingProxy) wasAsked(host string) bool {
	return slices.ContainsFunc(p.all(), func(a string) bool { h, _, _ := strings.Cut(a, ":"); return h == host })
}

// TestJoinBehindProxy: a machine behind a proxy joins. Requests to the cluster bypass the proxy; containerd's
// requests for images use it. Wine's service manager passes services the variables that the machine had when it
// started, so they take effect after a boot. Then NO_PROXY is removed: the kubelet asks the proxy for the API
// server, which proves that the test would notice such a request.
func TestJoinBehindProxy(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	ip, err := hns.NodeIP() // programs never use a proxy for loopback addresses
	if err != nil {
		t.Fatal(err)
	}
	b := newBed(ctx, t, startClusterWith(ctx, t, controlplane.Options{Address: ip}))
	p := newRefusingProxy(t)
	plan := planWith(t, `os     = "windows"`,
		fmt.Sprintf("os     = \"windows\"\n  proxy {\n    http  = %q\n    https = %q\n  }", p.URL, p.URL))
	args := b.variables(b.host.Port()).with(t, plan)

	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs", first.took.Seconds())
	b.wantJoined(ctx)
	for _, service := range []string{"containerd", "kubelet"} {
		b.wantProxied(ctx, service, p.URL, ip)
	}
	wantNothing(ctx, t, args)

	began, before := time.Now(), len(b.bootLog())
	if err := b.host.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	b.awaitHealed(ctx, before)
	b.awaitAlive(ctx, began)
	b.askForImages(ctx, p)
	wantNothing(ctx, t, args)
	if p.wasAsked(ip) {
		t.Errorf("the proxy was asked for the API server at %s: %v", ip, p.all())
	}

	before = len(b.bootLog())
	if out, err := b.host.Run(ctx, "reg.exe", "delete",
		`HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment`, "/v", "NO_PROXY", "/f"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := b.host.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	wait, stop := context.WithTimeoutCause(ctx, healWait,
		fmt.Errorf("the proxy was not asked for the API server within %v", healWait))
	defer stop()
	for !p.wasAsked(ip) {
		b.wait(wait, tail(b.bootLog()[before:]))
	}
}

// wantProxied: the service has the proxy in its own environment, with the exceptions: the API server, the
// cluster's networks and the machine.
func (b *bed) wantProxied(ctx context.Context, service, proxy, apiServer string) {
	b.t.Helper()
	environment := b.registry(ctx, `HKLM\SYSTEM\CurrentControlSet\Services\`+service)
	text := ""
	for name, value := range environment {
		if strings.HasSuffix(name, `\`+service+` "Environment"`) {
			text = multiString(b.t, value)
		}
	}
	for _, want := range []string{"HTTP_PROXY=" + proxy + "\n", "HTTPS_PROXY=" + proxy + "\n",
		"NO_PROXY=localhost,127.0.0.1," + apiServer + "," + controlplane.PodCIDR + ","} {
		if !strings.Contains(text, want) {
			b.t.Errorf("the environment of the service %s has no %q:\n%s", service, want, text)
		}
	}
}

// multiString decodes a list of strings from an export of the registry and returns them, one per line.
func multiString(t *testing.T, exported string) string {
	t.Helper()
	digits, ok := strings.CutPrefix(exported, "hex(7):")
	raw, err := hex.DecodeString(strings.NewReplacer(",", "", " ", "").Replace(digits))
	if !ok || err != nil {
		t.Fatalf("no list of strings: %q, %v", exported, err)
	}
	words := make([]uint16, len(raw)/2)
	for i := range words {
		words[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return strings.ReplaceAll(string(utf16.Decode(words)), "\x00", "\n")
}

// askForImages has containerd pull an image, as the kubelet does, and checks that the proxy was asked for it.
// The pull itself fails.
func (b *bed) askForImages(ctx context.Context, p *refusingProxy) {
	b.t.Helper()
	const crictl = `C:\windows\crictl.exe`
	b.copyIn(componentSet(b.t).Bin("crictl.exe"), crictl)
	out, err := b.host.Run(ctx, crictl, "--runtime-endpoint", "npipe:////./pipe/containerd-containerd", "pull",
		"registry.k8s.io/pause:3.10")
	if err == nil || !p.wasAsked("registry.k8s.io") {
		b.t.Errorf("containerd fetched an image (%v), or asked the proxy for nothing but %v:\n%s", err, p.all(), out)
	}
}
