package acceptance_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/cri"
	"nodejoin/examples/acceptance/internal/ecr"
)

const (
	ecrRegion   = "eu-west-1"
	ecrRegistry = "123456789012.dkr.ecr." + ecrRegion + ".amazonaws.com"
	ecrImage    = ecrRegistry + "/serve:1"
)

// ecrBed is a registry that wants a login, at ecrRegistry as the bed's Linux machine resolves it, and the API that
// gives the login.
type ecrBed struct {
	ca   *registryCA
	addr string // of the registry
	api  *ecr.Server
	url  string // of the API
}

func (b *linuxBed) startECR(ctx context.Context) *ecrBed {
	b.t.Helper()
	ca := newRegistryCAFor(b.t, net.JoinHostPort(b.machine.Gateway(), "443"), ecrRegistry)
	e := &ecrBed{ca: ca, addr: ca.basic(ctx, b.t.TempDir()), api: &ecr.Server{AccessKey: "AKIAIOSFODNN7EXAMPLE",
		SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", Region: ecrRegion, Password: registryPassword,
		Registry: "https://" + ecrRegistry}}
	ca.pushImage(ctx, e.addr, "serve", podLayer(b.t), "/podimage", "serve")
	ca.sign("api", false)
	pair, err := tls.LoadX509KeyPair(ca.file("api.pem"), ca.file("api.key"))
	if err != nil {
		b.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(e.api)
	if err := server.Listener.Close(); err != nil {
		b.t.Fatal(err)
	}
	if server.Listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", b.machine.Gateway()+":0"); err != nil {
		b.t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	b.t.Cleanup(server.Close)
	e.url = server.URL
	hosts := b.machine.Path("/etc/hosts")
	text, err := os.ReadFile(hosts)
	if err == nil {
		err = os.WriteFile(hosts, fmt.Appendf(text, "\n%s %s\n", b.machine.Gateway(), ecrRegistry), 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// client is one that reaches the registry by its name.
func (e *ecrBed) client() *http.Client {
	c := e.ca.client("")
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, e.addr)
	}
	return c
}

// plan adds to the parts of a plan the provider on both machines, and the CA of the registry and of the API.
func (e *ecrBed) plan(t *testing.T, parts ...string) string {
	t.Helper()
	plan := strings.Join(parts, "\n")
	add := func(after, text string) {
		if strings.Count(plan, after) != 1 {
			t.Fatalf("the plan has %q %d times:\n%s", after, strings.Count(plan, after), plan)
		}
		plan = strings.Replace(plan, after, after+text, 1)
	}
	add("runtime \"containerd\" {", fmt.Sprintf("\n  registry %q { ca = file(%q) }", ecrRegistry, e.ca.file("ca.pem")))
	for os, bundle := range map[string]string{"linux": "/etc/kubernetes/ecr-ca.pem",
		"windows": `C:\etc\kubernetes\ecr-ca.pem`} {
		add(fmt.Sprintf("profile %q {", os), fmt.Sprintf(`
  credential_provider "ecr" {
    file   = %q
    sha256 = %q
    env = {
      AWS_ACCESS_KEY_ID     = %q
      AWS_SECRET_ACCESS_KEY = %q
      AWS_ENDPOINT_URL_ECR  = %q
      AWS_CA_BUNDLE         = %q
    }
  }`, providerProgram(t, os), sumOf(t, providerProgram(t, os)), e.api.AccessKey, e.api.SecretKey, e.url, bundle))
		plan += fmt.Sprintf("\nstep \"file\" \"ecr_ca_%s\" {\n  on      = node.%s\n  path    = %q\n  content = file(%q)\n"+
			"  before  = [\"kubelet\"]\n}\n", os, map[string]string{"linux": linuxNode, "windows": nodeName}[os], bundle,
			e.ca.file("ca.pem"))
	}
	return plan
}

func providerProgram(t *testing.T, os string) string {
	name := "ecr-credential-provider"
	if os == "windows" {
		name += ".exe"
	}
	return componentSet(t).Bin(name)
}

func sumOf(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// wantPulledOnLinux: a pod runs whose image nobody gets without the login that the provider has from the API.
func (b *linuxBed) wantPulledOnLinux(ctx context.Context, e *ecrBed) {
	b.t.Helper()
	resp, err := e.client().Get("https://" + ecrRegistry + "/v2/serve/manifests/1")
	if err != nil {
		b.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if before := e.api.Given(); resp.StatusCode != http.StatusUnauthorized || before != 0 {
		b.t.Errorf("the image without a login: %s; %d tokens were given out before the pod", resp.Status, before)
	}
	b.wantServed(ctx, ecrImage, corev1.PullAlways)
	if n, refused := e.api.Given(), e.api.Refused(); n == 0 || len(refused) > 0 {
		b.t.Errorf("the API has given out %d tokens and refused %q", n, refused)
	}
	if err := b.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, servedPod,
		metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// standaloneConfig is of a kubelet without a cluster, beside that of the node. %s is the endpoint of its runtime.
const standaloneConfig = `kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: %s
staticPodPath: C:\standalone\pods
fileCheckFrequency: 1s
port: 10350
healthzPort: 0
enforceNodeAllocatable: []
cgroupsPerQOS: false
`

const standalonePod = `kind: Pod
apiVersion: v1
metadata: {name: pulled, namespace: default}
spec: {containers: [{name: c, image: %s, imagePullPolicy: Always}]}
`

// wantPulledOnWindows: the real kubelet.exe, with the files of the node's, runs the provider when a pod wants an
// image, and the registry gives that to who has the login. Under Wine no container runs, so another runtime stands in.
func (b *bed) wantPulledOnWindows(ctx context.Context, e *ecrBed) {
	b.t.Helper()
	runtime, err := cri.Start(ctx, e.client())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := runtime.Close(); err != nil {
			b.t.Error(err)
		}
	}()
	before := e.api.Given()
	pods := b.host.Path(`C:\standalone\pods`)
	err = errors.Join(os.MkdirAll(pods, 0o755), os.WriteFile(filepath.Join(pods, "pod.yaml"),
		fmt.Appendf(nil, standalonePod, ecrImage), 0o644), os.WriteFile(b.host.Path(`C:\standalone\config.yaml`),
		fmt.Appendf(nil, standaloneConfig, runtime.Endpoint()), 0o644))
	if err != nil {
		b.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(b.dir, "standalone.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := b.host.Command(ctx, `C:\k\kubelet.exe`, `--config=C:\standalone\config.yaml`,
		`--root-dir=C:\standalone\kubelet`, `--cert-dir=C:\standalone\pki`, "--hostname-override=standalone",
		`--image-credential-provider-config=C:\etc\kubernetes\credential-provider.json`,
		`--image-credential-provider-bin-dir=C:\k\credential-provider`)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if b.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			b.t.Logf("--- kubelet.exe without a cluster\n%s", tail(string(text)))
		}
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	bound, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for len(runtime.Pulls()) == 0 {
		select {
		case <-tick.C:
		case <-bound.Done():
			b.t.Errorf("kubelet.exe has asked for no pull: %v", context.Cause(bound))
			return
		}
	}
	if p := runtime.Pulls()[0]; p.Image != ecrImage || p.User != ecr.User || p.Err != nil {
		b.t.Errorf("pull %+v, want %s as user %s", p, ecrImage, ecr.User)
	}
	if n, refused := e.api.Given(), e.api.Refused(); n == before || len(refused) > 0 {
		b.t.Errorf("the API has given out %d tokens after %d and refused %q", n, before, refused)
	}
}
