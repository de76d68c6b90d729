package acceptance_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/machine"
)

// cloudConfig has cloud-init do what user data of nodejoin needs, and what makes a copy of an image a machine of its
// own. It does nothing else on a machine that shares programs with this one.
const cloudConfig = `datasource_list: [NoCloud]
network: {config: disabled}
system_info: {distro: debian}
users: []
disable_root: false
ssh_genkeytypes: [ed25519]
cloud_init_modules: [write-files, set-hostname, ssh]
cloud_config_modules: []
cloud_final_modules: [scripts-per-boot]
`

// TestFirstBoot: a machine is baked over SSH, and its disk is copied twice. The copies have nothing of the machine. On
// each the real cloud-init reads its user data, and nobody logs in to it. It fetches nodejoin and the bundle, and
// joins with the rights of its account and with keys of its own. Nothing secret is left on the machine, its
// certificate is good for its own Node only, and its token for nothing. The controller then finds nothing to do, and a
// leave removes the accounts.
func TestFirstBoot(t *testing.T) {
	if _, err := exec.LookPath("cloud-init"); err != nil {
		t.Skipf("no cloud-init (.ci/programs installs it): %v", err)
	}
	ctx, cancel := bounded(t, 9*time.Minute)
	defer cancel()
	b := newLinuxBedOn(ctx, t, machine.Options{Name: "baked-lin", Systemd: true, Network: "10.89.9"},
		controlplane.Options{})
	copies := []*linuxBed{b.another("lin-1"), b.another("lin-2")}
	site, program := t.TempDir(), string(released(t))
	if err := os.Link(program, filepath.Join(site, filepath.Base(program))); err != nil {
		t.Fatal(err)
	}
	bundle, from := filepath.Join(site, "site.tar"), b.serve(ctx, site)
	args := writePlan(t, b.head(), b.linuxHosts(map[string]string{b.name: b.overSSH(b.machine.IP()),
		"lin-1": copies[0].overSSH("10.89.7.2"), "lin-2": copies[1].overSSH("10.89.8.2")}), bakedSteps)
	released(t).must(ctx, t, append([]string{"lock"}, args...)...)
	baked := b.bake(ctx, args)
	released(t).must(ctx, t, append([]string{"bundle", "--no-images", "-o", bundle}, args...)...)
	for i, c := range copies {
		c.bootCopy(ctx, b.machine, []string{"10.89.7", "10.89.8"}[i])
		released(t).must(ctx, t, "user-data", bundle, c.name, "--for", "cloud-init", "--from", from, "-o", c.userData())
	}
	t.Run("copies", func(t *testing.T) {
		for _, c := range copies {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.t = t
				c.wantFirstBoot(ctx)
				baked.wantNowhere(ctx, t, c.machine)
			})
		}
	})
	both := append([]string{"--target", "lin-1", "--target", "lin-2"}, args...)
	for _, c := range copies {
		c.t = t
		c.serveSSH(ctx, sshFolder, sshHostKey)
	}
	wantDifferent(ctx, t, copies[0].machine, copies[1].machine)
	wantNothing(ctx, t, both)
	released(t).must(ctx, t, append([]string{"leave", "--auto-approve"}, both...)...)
	for _, c := range copies {
		_, errAccount := b.cluster.Client.CoreV1().ServiceAccounts("kube-system").Get(ctx, "nodejoin-first-boot."+c.name,
			metav1.GetOptions{})
		_, errRole := b.cluster.Client.RbacV1().ClusterRoles().Get(ctx, "nodejoin:first-boot:"+c.name, metav1.GetOptions{})
		if !apierrors.IsNotFound(errAccount) || !apierrors.IsNotFound(errRole) {
			t.Errorf("after the leave of %s: account: %v, role: %v", c.name, errAccount, errRole)
		}
	}
}

// userData is the file of the machine's user data.
func (b *linuxBed) userData() string { return filepath.Join(b.dir, "user-data") }

// wantFirstBoot has the machine join by user data alone.
func (b *linuxBed) wantFirstBoot(ctx context.Context) {
	b.t.Helper()
	own, account := b.wantAccess(ctx, b.userData())
	b.wantOwnNode(ctx, own)
	out := b.cloudInit(ctx, b.userData())
	noSecret(b.t, "cloud-init", []byte(out))
	if !strings.Contains(out, "ok kubelet ") || inImage.MatchString(out) {
		b.t.Errorf("the first boot does what the image has already:\n%s", out)
	}
	b.wantLinuxNode(ctx, "systemd")
	for _, name := range []string{"/var/lib/nodejoin-first-boot", "/var/lib/cloud/scripts/per-boot/nodejoin-first-boot"} {
		if _, err := os.Lstat(b.machine.Path(name)); !os.IsNotExist(err) {
			b.t.Errorf("%s is still there: %v", name, err)
		}
	}
	keyOf(own).wantNowhere(ctx, b.t, b.machine)
	until(ctx, b.t, "the end of the account's token", func() error { return b.refused(ctx, account) })
}

// keyOf are traces of a private key, as PEM and in a kubeconfig.
func keyOf(own string) traces {
	const begin = "-----BEGIN EC"
	_, rest, _ := strings.Cut(own, begin)
	key := begin + rest
	return traces{strings.Split(key, "\n")[1], base64.StdEncoding.EncodeToString([]byte(key))}
}

// wantOwnNode checks whom the certificate of user data is good for: the node itself.
func (b *linuxBed) wantOwnNode(ctx context.Context, own string) {
	b.t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: b.cluster.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: b.cluster.CA, CertData: []byte(own), KeyData: []byte(own)}})
	if err != nil {
		b.t.Fatal(err)
	}
	who, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "system:node:"+b.name {
		b.t.Errorf("%v: the certificate is of %s", err, who.Status.UserInfo.Username)
	}
	requests := c.CertificatesV1().CertificateSigningRequests()
	_, err = requests.Create(ctx, clientRequest(b.t, "other"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		b.t.Errorf("it requests a certificate of another Node: %v", err)
	}
}

// clientRequest is what a kubelet requests when it joins.
func clientRequest(t *testing.T, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}}}
}

// serve offers the files of a folder to the machine.
func (b *linuxBed) serve(ctx context.Context, dir string) (from string) {
	b.t.Helper()
	return serveFolder(ctx, b.t, b.machine.Gateway(), dir)
}

// serveFolder offers the files of a folder at an address of this machine.
func serveFolder(ctx context.Context, t *testing.T, address, dir string) (from string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // until Close
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

// wantAccess reads what user data has, the certificate with its key and the account's token, and checks what the
// account may do: nothing that is not the node's own.
func (b *linuxBed) wantAccess(ctx context.Context, data string) (own, account string) {
	b.t.Helper()
	var join struct{ Token, Account string }
	if err := json.Unmarshal(b.firstBootFile(data), &join); err != nil {
		b.t.Fatal(err)
	}
	c := b.as(join.Account)
	_, errSecrets := c.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
	_, errMint := c.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "default", nil, metav1.CreateOptions{})
	errDelete := c.CoreV1().Nodes().Delete(ctx, "other", metav1.DeleteOptions{})
	_, errPatch := c.CoreV1().Nodes().Patch(ctx, "other", "application/merge-patch+json", []byte(`{}`),
		metav1.PatchOptions{})
	for what, err := range map[string]error{"list Secrets": errSecrets, "make tokens of other accounts": errMint,
		"delete Nodes": errDelete, "change other Nodes": errPatch} {
		if err == nil || apierrors.IsUnauthorized(err) || !apierrors.IsForbidden(err) {
			b.t.Errorf("the account may %s: %v", what, err)
		}
	}
	_, own, _ = strings.Cut(join.Token, ".")
	return own, join.Account
}

// firstBootFile is what nodejoin reads at a first boot, from user data for cloud-init.
func (b *linuxBed) firstBootFile(data string) []byte {
	b.t.Helper()
	text, err := os.ReadFile(data)
	if err != nil {
		b.t.Fatal(err)
	}
	var config struct {
		WriteFiles []struct{ Content string } `json:"write_files"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.WriteFiles) != 2 {
		b.t.Fatalf("%v\n%s", err, text)
	}
	raw, err := base64.StdEncoding.DecodeString(config.WriteFiles[0].Content)
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}

// as is the cluster's client with a token.
func (b *linuxBed) as(token string) *kubernetes.Clientset {
	b.t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: b.cluster.URL, BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: b.cluster.CA}})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// refused is nil if the API server does not know a token.
func (b *linuxBed) refused(ctx context.Context, token string) error {
	_, err := b.as(token).CoreV1().Nodes().Get(ctx, b.name, metav1.GetOptions{})
	if apierrors.IsUnauthorized(err) {
		return nil
	}
	return err
}

// cloudInit runs the stages of cloud-init on the machine, as its units do at a boot, and returns what they print.
func (b *linuxBed) cloudInit(ctx context.Context, data string) string {
	b.t.Helper()
	const seed = "/var/lib/cloud/seed/nocloud"
	text, err := os.ReadFile(data)
	if err != nil {
		b.t.Fatal(err)
	}
	b.write("/etc/cloud/cloud.cfg", []byte(cloudConfig))
	b.write(seed+"/user-data", text)
	b.write(seed+"/meta-data", fmt.Appendf(nil, "instance-id: %[1]s\nlocal-hostname: %[1]s\n", b.name))
	var all strings.Builder
	for _, stage := range []string{"schema --config-file " + seed + "/user-data", "init --local", "init",
		"modules --mode=config", "modules --mode=final"} {
		cmd := b.machine.Command(ctx, append([]string{"cloud-init"}, strings.Fields(stage)...)...)
		cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} // a boot has no home folder
		out, err := cmd.CombinedOutput()
		all.Write(out)
		if b.t.Logf("cloud-init %s:\n%s", stage, tail(string(out))); err != nil {
			log, _ := os.ReadFile(b.machine.Path("/var/log/cloud-init.log"))
			b.t.Fatalf("cloud-init %s: %v\n%s", stage, err, tail(string(log)))
		}
	}
	return all.String()
}
