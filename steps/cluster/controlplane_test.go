package cluster

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// componentsEnv names the folder that holds etcd, kube-apiserver and
// kube-controller-manager for the tests against a real cluster.
const componentsEnv = "NODEJOIN_COMPONENTS"

// controlPlane is etcd, kube-apiserver and the controllers that a join needs, as
// processes on loopback.
type controlPlane struct {
	t          *testing.T
	bin, dir   string
	url        string
	ca         *x509.Certificate
	caKey      crypto.Signer
	kubeconfig string // of an administrator
	admin      *kubernetes.Clientset
	apiserver  *exec.Cmd
}

func startControlPlane(t *testing.T, args ...string) *controlPlane {
	t.Helper()
	bin := os.Getenv(componentsEnv)
	if bin == "" {
		t.Skipf("%s does not name a folder with etcd, kube-apiserver and kube-controller-manager", componentsEnv)
	}
	p := &controlPlane{t: t, bin: bin, dir: t.TempDir()}
	port := freePort(t)
	p.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	p.keys()
	etcd := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	peer := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	p.start("etcd", "--data-dir="+p.path("etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--unsafe-no-fsync", "--log-level=warn")
	p.apiserver = p.start("kube-apiserver", append(args, "--etcd-servers="+etcd, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--client-ca-file="+p.path("ca.crt"), "--tls-cert-file="+p.path("apiserver.crt"), "--tls-private-key-file="+
			p.path("apiserver.key"),
		"--enable-bootstrap-token-auth", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+p.path("sa.key"),
		"--service-account-signing-key-file="+p.path("sa.key"), "--service-cluster-ip-range=10.96.0.0/16",
		"--endpoint-reconciler-type=none")...)
	p.kubeconfig = p.writeKubeconfig("admin",
		&clientcmdapi.AuthInfo{ClientCertificate: p.path("admin.crt"), ClientKey: p.path("admin.key")})
	cfg, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	p.must(err)
	cfg.QPS, cfg.Burst = 100, 200
	p.admin, err = kubernetes.NewForConfig(cfg)
	p.must(err)
	p.until(time.Minute, "kube-apiserver is ready", func(ctx context.Context) error {
		return p.admin.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	p.start("kube-controller-manager", "--kubeconfig="+p.kubeconfig, "--leader-elect=false",
		"--controllers=certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller,"+
			"node-ipam-controller,node-lifecycle-controller,token-cleaner-controller,namespace-controller,"+
			"serviceaccount-controller,garbage-collector-controller",
		"--cluster-signing-cert-file="+p.path("ca.crt"), "--cluster-signing-key-file="+p.path("ca.key"),
		"--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--service-cluster-ip-range=10.96.0.0/16",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", freePort(t)))
	return p
}

func (p *controlPlane) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *controlPlane) path(name string) string { return filepath.Join(p.dir, name) }

// start runs a component until the test ends.
func (p *controlPlane) start(name string, args ...string) *exec.Cmd {
	p.t.Helper()
	log, err := os.Create(p.path(name + ".log"))
	p.must(err)
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttr()
	p.must(cmd.Start())
	p.t.Cleanup(func() {
		stop(cmd)
		log.Close()
		if p.t.Failed() {
			if b, _ := os.ReadFile(log.Name()); len(b) > 0 {
				p.t.Logf("end of the log of %s:\n%s", name, b[max(0, len(b)-2000):])
			}
		}
	})
	return cmd
}

func stop(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(3*time.Second, func() { cmd.Process.Kill() })
	_ = cmd.Wait()
	kill.Stop()
}

// until polls f until the bound.
func (p *controlPlane) until(bound time.Duration, what string, f func(context.Context) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), bound)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			p.t.Fatalf("waited %s until %s: %v", bound, what, err)
		}
	}
}

func (p *controlPlane) keys() {
	p.caKey = newKey(p.t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Minute),
		NotAfter:  time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, p.caKey.Public(), p.caKey)
	p.must(err)
	p.ca, err = x509.ParseCertificate(der)
	p.must(err)
	p.must(os.WriteFile(p.path("ca.crt"), certPEM(der), 0o600))
	p.writeKey("ca", p.caKey)
	p.issue("apiserver", "kube-apiserver", "", x509.ExtKeyUsageServerAuth)
	p.issue("admin", "kubernetes-admin", "system:masters", x509.ExtKeyUsageClientAuth)
	sa, err := rsa.GenerateKey(rand.Reader, 2048)
	p.must(err)
	p.writeKey("sa", sa)
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (p *controlPlane) writeKey(name string, k crypto.Signer) {
	p.must(os.WriteFile(p.path(name+".key"), keyPEM(p.t, k), 0o600))
}

func keyPEM(t *testing.T, k crypto.Signer) []byte {
	t.Helper()
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})
}

func (p *controlPlane) issue(name, cn, org string, use x509.ExtKeyUsage) {
	k := newKey(p.t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:   pkix.Name{CommonName: cn, Organization: []string{org}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(12 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, p.ca, k.Public(), p.caKey)
	p.must(err)
	p.must(os.WriteFile(p.path(name+".crt"), certPEM(der), 0o600))
	p.writeKey(name, k)
}

func (p *controlPlane) writeKubeconfig(name string, user *clientcmdapi.AuthInfo) string {
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: p.url, CertificateAuthorityData: certPEM(p.ca.Raw)}
	c.AuthInfos["u"] = user
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	f := p.path(name + ".kubeconfig")
	p.must(clientcmd.WriteToFile(*c, f))
	return f
}

// as is a client with other credentials than the administrator's.
func (p *controlPlane) as(cfg rest.Config) *kubernetes.Clientset {
	p.t.Helper()
	cfg.Host, cfg.CAData, cfg.QPS = p.url, certPEM(p.ca.Raw), -1 // no limit
	c, err := kubernetes.NewForConfig(&cfg)
	p.must(err)
	return c
}

// nodes creates Nodes and returns their UIDs.
func (p *controlPlane) nodes(ctx context.Context, names ...string) map[string]types.UID {
	p.t.Helper()
	uids := map[string]types.UID{}
	for _, name := range names {
		n, err := p.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		p.must(err)
		uids[name] = n.UID
	}
	return uids
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
