package sandbox

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

func open(t *testing.T, c Config) *Host {
	t.Helper()
	if c.Path == "" {
		c.Path = filepath.Join(t.TempDir(), "win-1")
	}
	h, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, h *Host, path, text string) {
	t.Helper()
	must(t, h.WriteFile(t.Context(), path, strings.NewReader(text), host.WriteOptions{}))
}

func serve(t *testing.T, h *Host, name string, dependsOn []string, command ...string) {
	t.Helper()
	must(t, h.CreateService(t.Context(),
		host.ServiceConfig{Name: name, Start: host.StartAuto, Command: command, DependsOn: dependsOn}))
}

func stateOf(t *testing.T, h *Host, name string) (host.ServiceState, int) {
	t.Helper()
	s, err := h.Service(t.Context(), name)
	must(t, err)
	return s.State, s.ExitCode
}

func kubeconfigText(info kube.Info, token string) string {
	return "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    server: " + info.Server +
		"\n    certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(info.CA)) +
		"\nusers:\n- name: u\n  user:\n    token: " + token +
		"\ncontexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n"
}

// node is a machine with the programs installed and the services registered.
func node(t *testing.T, clusterDir string) *Host {
	t.Helper()
	h := open(t, Config{ClusterDir: clusterDir, Hostname: "WIN-1", IP: "192.0.2.21"})
	for _, exe := range []string{"containerd", "kubelet", "flanneld", "kube-proxy", "kube-log-runner", "nodejoin-agent"} {
		write(t, h, `C:\k\`+exe+".exe", "program "+exe)
	}
	write(t, h, `C:\k\kubelet.yaml`, "registerWithTaints:\n- {key: os, value: windows, effect: NoSchedule}\n")
	write(t, h, `C:\k\net-conf.json`, `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789}}`)
	serve(t, h, "containerd", nil, `C:\k\containerd.exe`, "--run-service")
	serve(t, h, "kubelet", []string{"containerd"}, `C:\k\kube-log-runner.exe`, `-log-file=C:\var\log\kubelet.log`,
		`C:\k\kubelet.exe`, "--windows-service",
		`--config=C:\k\kubelet.yaml`, `--kubeconfig=C:\k\kubelet.kubeconfig`, `--bootstrap-kubeconfig`,
		`C:\k\bootstrap.kubeconfig`, "--hostname-override=win-1", "--node-labels=zone=a,team=x")
	serve(t, h, "flanneld", nil, `C:\k\nodejoin-agent.exe`, "supervise", "--", `C:\k\flanneld.exe`,
		`--kubeconfig-file=C:\k\flannel.kubeconfig`,
		`--net-config-path=C:\k\net-conf.json`, `--subnet-file=C:\run\flannel\subnet.env`)
	must(t, h.UpdateService(t.Context(),
		host.ServiceConfig{Name: "flanneld", Start: host.StartAuto, Environment: []string{"NODE_NAME=win-1"},
			Command: []string{`C:\k\nodejoin-agent.exe`, "supervise", "--", `C:\k\flanneld.exe`,
				`--kubeconfig-file=C:\k\flannel.kubeconfig`,
				`--net-config-path=C:\k\net-conf.json`, `--subnet-file=C:\run\flannel\subnet.env`}}))
	return h
}

func TestJoin(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "cluster")
	c, err := OpenCluster(t.Context(), ClusterConfig{Dir: dir})
	must(t, err)
	info, err := c.Info(ctx)
	must(t, err)
	h := node(t, dir)

	// Without credentials, or with a wrong token, a kubelet exits at once.
	must(t, h.StartService(ctx, "kubelet"))
	if got, code := stateOf(t, h, "kubelet"); got != host.ServiceStopped || code != 1 {
		t.Fatalf("kubelet without credentials: %s, exit code %d", got, code)
	}
	if err := h.ProbePipe(ctx, `\\.\pipe\containerd-containerd`, "/runtime.v1.RuntimeService/Version"); err != nil {
		t.Errorf("containerd, started as a dependency: %v", err)
	}
	write(t, h, `C:\k\bootstrap.kubeconfig`, kubeconfigText(info, "aaaaaa.bbbbbbbbbbbbbbbb"))
	must(t, h.StartService(ctx, "kubelet"))
	if got, _ := stateOf(t, h, "kubelet"); got != host.ServiceStopped {
		t.Fatalf("kubelet with a wrong token: %s", got)
	}
	if _, err := c.Node(ctx, "win-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("node before the join: %v", err)
	}

	token, err := c.MintToken(ctx, "win-1", 15*time.Minute)
	must(t, err)
	write(t, h, `C:\k\bootstrap.kubeconfig`, kubeconfigText(info, token.ID+"."+token.Secret))
	must(t, h.StartService(ctx, "kubelet"))
	if status, err := h.ProbeHTTP(ctx, "http://127.0.0.1:10248/healthz"); err != nil || status != 200 {
		t.Fatalf("healthz: %d, %v", status, err)
	}
	got, err := c.Node(ctx, "win-1")
	must(t, err)
	want := kube.Node{Name: "win-1", UID: got.UID, Ready: true, ReadyReason: got.ReadyReason, PodCIDR: "10.244.0.0/24",
		InternalIP: "192.0.2.21", KubeletVersion: "v1.36.3",
		Taints: []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}},
		Labels: map[string]string{"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64",
			"kubernetes.io/hostname":           "win-1",
			"node.kubernetes.io/windows-build": "10.0.20348", "zone": "a", "team": "x"}}
	want.Heartbeat = got.Heartbeat
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("node (-want +got):\n%s", d)
	}
	requests, err := c.SigningRequests(ctx, "win-1")
	must(t, err)
	if len(requests) != 1 || !requests[0].Issued || requests[0].Requestor != "system:bootstrap:"+token.ID {
		t.Errorf("signing requests: %+v", requests)
	}
	cred, err := h.credential(`C:\k\kubelet.kubeconfig`)
	must(t, err)
	cert, err := parseCertificate(string(cred.user.Cert))
	must(t, err)
	if cert.Subject.CommonName != "system:node:win-1" || cert.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth ||
		cred.server != info.Server {
		t.Errorf("certificate %+v of %s", cert.Subject, cred.server)
	}
	if fi, err := h.Stat(ctx, `C:\k\kubelet.kubeconfig`); err != nil || fi.Access != host.AccessPrivate {
		t.Errorf("kubeconfig: %+v, %v", fi, err)
	}

	// The token is no longer needed.
	must(t, c.RevokeToken(ctx, token.ID))
	must(t, h.Remove(ctx, `C:\k\bootstrap.kubeconfig`))
	must(t, h.StopService(ctx, "kubelet"))
	if n, err := c.Node(ctx, "win-1"); err != nil || n.Ready {
		t.Errorf("node of a stopped kubelet: %+v, %v", n, err)
	}
	must(t, h.StartService(ctx, "kubelet"))
	if n, err := c.Node(ctx, "win-1"); err != nil || !n.Ready {
		t.Errorf("node of a kubelet that is back: %+v, %v", n, err)
	}

	account := kube.ServiceAccount{Namespace: "kube-flannel", Name: "flannel", ClusterRole: "flannel",
		Rules: []kube.Rule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}}}
	must(t, c.EnsureServiceAccount(ctx, account))
	jwt, _, err := c.ServiceAccountToken(ctx, kube.TokenRequest{Namespace: "kube-flannel", Name: "flannel",
		TTL: time.Hour})
	must(t, err)
	write(t, h, `C:\k\flannel.kubeconfig`, kubeconfigText(info, jwt))
	must(t, h.StartService(ctx, "flanneld"))
	network, err := h.HNSNetwork(ctx, "Flannel.4096")
	must(t, err)
	wantNetwork := host.HNSNetwork{ID: network.ID, Name: "flannel.4096", Type: "Overlay", ManagementIP: "192.0.2.21",
		Subnets: []string{"10.244.0.0/24"}, VNI: 4096, Port: 4789}
	if d := cmp.Diff(wantNetwork, network); d != "" {
		t.Errorf("network (-want +got):\n%s", d)
	}
	env, err := h.read(`C:\run\flannel\subnet.env`)
	must(t, err)
	wantEnv := "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.0.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n"
	if string(env) != wantEnv {
		t.Errorf("subnet.env:\n%s", env)
	}
	for _, exe := range []string{`c:\K\FLANNELD.exe`, `C:\k\nodejoin-agent.exe`, `C:\k\kubelet.exe`,
		`C:\k\kube-log-runner.exe`} {
		if err := h.WriteFile(ctx, exe, strings.NewReader("new"), host.WriteOptions{}); !errors.Is(err, host.ErrBusy) {
			t.Errorf("overwriting %s: %v", exe, err)
		}
	}

	must(t, h.Reboot(ctx))
	if got, _ := stateOf(t, h, "kubelet"); got != host.ServiceRunning {
		t.Errorf("kubelet after a reboot: %s", got)
	}
}

func TestBroken(t *testing.T) {
	ctx := t.Context()
	h := node(t, "")
	must(t, os.WriteFile(filepath.Join(h.cfg.Path, stateDir, "broken.json"),
		[]byte(`{"Containerd.exe":"exit 7"}`), 0o644))
	must(t, h.StartService(ctx, "containerd"))
	if got, code := stateOf(t, h, "containerd"); got != host.ServiceStopped || code != 7 {
		t.Errorf("a broken program: %s, exit code %d", got, code)
	}
	if err := h.StartService(ctx, "kubelet"); !errors.Is(err, errDependency) {
		t.Errorf("a service over a broken one: %v", err)
	}
}

func TestTokens(t *testing.T) {
	ctx := context.Background()
	c, err := OpenCluster(t.Context(), ClusterConfig{Dir: t.TempDir(), PodCIDR: "10.1.0.0/16"})
	must(t, err)
	live, err := c.MintToken(ctx, "n", time.Minute)
	must(t, err)
	dead, err := c.MintToken(ctx, "n", -time.Minute)
	must(t, err)
	list, err := c.BootstrapTokens(ctx, "n")
	must(t, err)
	if len(list) != 1 || list[0].ID != live.ID || list[0].Secret != "" {
		t.Errorf("tokens: %+v", list)
	}
	if _, err := c.join(ctx, "n", user{Token: dead.Text()}); !errors.Is(err, kube.ErrUnauthorized) {
		t.Errorf("joining with an ended token: %v", err)
	}
	own, err := c.MintCertificate(ctx, "n", time.Minute)
	must(t, err)
	cert, key := own.Pair()
	_, err = c.join(ctx, "n", user{Cert: cert, Key: key})
	must(t, err)
	if _, err := c.join(ctx, "m", user{Cert: cert, Key: key}); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("joining as another Node: %v", err)
	}
	late, err := c.MintCertificate(ctx, "n", -time.Minute)
	must(t, err)
	cert, _ = late.Pair()
	for what, by := range map[string]user{"its id alone": {Token: own.ID + "."}, "another key": {Cert: cert, Key: key},
		"an ended certificate": func() user { c, k := late.Pair(); return user{Cert: c, Key: k} }()} {
		if _, err := c.join(ctx, "n", by); !errors.Is(err, kube.ErrUnauthorized) {
			t.Errorf("joining with %s: %v", what, err)
		}
	}
	must(t, c.RevokeToken(ctx, own.ID))
	must(t, c.RevokeToken(ctx, live.ID))
	must(t, c.RevokeToken(ctx, live.ID))
	if _, err := c.join(ctx, "n", user{Token: live.Text()}); !errors.Is(err, kube.ErrUnauthorized) {
		t.Errorf("joining with a revoked token: %v", err)
	}

	_, _, err = c.ServiceAccountToken(ctx, kube.TokenRequest{Namespace: "ns", Name: "sa", TTL: time.Hour})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a token of no account: %v", err)
	}
	must(t, c.EnsureServiceAccount(ctx, kube.ServiceAccount{Namespace: "ns", Name: "sa"}))
	token, expires, err := c.ServiceAccountToken(ctx, kube.TokenRequest{Namespace: "ns", Name: "sa", TTL: time.Hour})
	must(t, err)
	must(t, c.authenticated(ctx, token))
	if err := c.authenticated(ctx, token[:len(token)-4]+"AAAA"); !errors.Is(err, kube.ErrUnauthorized) {
		t.Errorf("a forged token: %v", err)
	}
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	must(t, err)
	var got claims
	must(t, json.Unmarshal(body, &got))
	if got.Subject != "system:serviceaccount:ns:sa" || got.Expires != expires.Unix() {
		t.Errorf("claims: %+v", got)
	}
	bound := kube.TokenRequest{Namespace: "ns", Name: "sa", TTL: time.Hour, Node: "n"}
	if _, _, err := c.ServiceAccountToken(ctx, bound); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a token bound to no Node: %v", err)
	}
	must(t, c.tell(ctx, "make", "n", func(s *clusterState) error {
		s.Nodes.set("n", kube.Node{Name: "n", UID: "u"})
		return nil
	}))
	if token, _, err = c.ServiceAccountToken(ctx, bound); err != nil {
		t.Fatal(err)
	}
	must(t, c.authenticated(ctx, token))
	must(t, c.DeleteNode(ctx, "n", "u"))
	if err := c.authenticated(ctx, token); !errors.Is(err, kube.ErrUnauthorized) {
		t.Errorf("the token of a Node that is gone: %v", err)
	}

	must(t, c.SetDown(ctx, true))
	if _, err := c.Info(ctx); !errors.Is(err, kube.ErrUnreachable) {
		t.Errorf("a cluster that is down: %v", err)
	}
}
