package acceptance_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// cloudConfig has cloud-init do what user data of nodejoin needs, and nothing else on a machine that shares programs
// with this one.
const cloudConfig = `datasource_list: [NoCloud]
network: {config: disabled}
system_info: {distro: debian}
cloud_init_modules: [write-files]
cloud_config_modules: []
cloud_final_modules: [scripts-per-boot]
`

// TestFirstBoot: the real cloud-init reads the user data of a machine that nobody logs in to. The machine fetches
// nodejoin and the bundle, joins with the rights of its account, and nothing secret is left: not on the machine, and
// its tokens are good for nothing. The controller then finds nothing to do, and a leave removes the account.
func TestFirstBoot(t *testing.T) {
	if _, err := exec.LookPath("cloud-init"); err != nil {
		t.Skipf("no cloud-init (.ci/programs installs it): %v", err)
	}
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, false)
	site, program := t.TempDir(), string(released(t))
	if err := os.Link(program, filepath.Join(site, filepath.Base(program))); err != nil {
		t.Fatal(err)
	}
	args := writePlan(t, b.head(), b.linuxHost())
	bundle, data := filepath.Join(site, "site.tar"), filepath.Join(t.TempDir(), "user-data")
	from := b.serve(ctx, site)
	for _, call := range [][]string{append([]string{"lock"}, args...),
		append([]string{"bundle", "--no-images", "-o", bundle}, args...),
		{"user-data", bundle, linuxNode, "--for", "cloud-init", "--from", from, "--token-ttl", "15m", "-o", data}} {
		if out, code := released(t).output(ctx, t, call...); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", call, code, out)
		}
	}
	token, account := b.wantAccess(ctx, data)
	b.cloudInit(ctx, data)
	b.wantLinuxNode(ctx, "cgroupfs")
	for _, name := range []string{"/var/lib/nodejoin-first-boot", "/var/lib/cloud/scripts/per-boot/nodejoin-first-boot"} {
		if _, err := os.Lstat(b.machine.Path(name)); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	for what, secret := range map[string]string{"bootstrap token": token, "token of the account": account} {
		until(ctx, t, "the end of the "+what, func() error { return b.refused(ctx, secret) })
	}
	wantNothing(ctx, t, args)
	if out, code := released(t).output(ctx, t,
		append([]string{"leave", "--auto-approve", "--target", linuxNode}, args...)...); code != 0 {
		t.Fatalf("leave: exit code %d\n%s", code, out)
	}
	_, errAccount := b.cluster.Client.CoreV1().ServiceAccounts("kube-system").Get(ctx, "nodejoin-first-boot."+linuxNode,
		metav1.GetOptions{})
	_, errRole := b.cluster.Client.RbacV1().ClusterRoles().Get(ctx, "nodejoin:first-boot:"+linuxNode, metav1.GetOptions{})
	if !apierrors.IsNotFound(errAccount) || !apierrors.IsNotFound(errRole) {
		t.Errorf("after the leave: account: %v, role: %v", errAccount, errRole)
	}
}

// serve offers the files of a folder to the machine.
func (b *linuxBed) serve(ctx context.Context, dir string) (from string) {
	b.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(b.machine.Gateway(), "0"))
	if err != nil {
		b.t.Fatal(err)
	}
	s := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // until Close
	}()
	b.t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

// wantAccess reads the tokens of user data, and checks what the account may do: nothing that is not the node's own.
func (b *linuxBed) wantAccess(ctx context.Context, data string) (token, account string) {
	b.t.Helper()
	text, err := os.ReadFile(data)
	if err != nil {
		b.t.Fatal(err)
	}
	var config struct {
		WriteFiles []struct{ Content string } `json:"write_files"`
	}
	var join struct{ Token, Account string }
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.WriteFiles) != 2 {
		b.t.Fatalf("%v\n%s", err, text)
	}
	raw, err := base64.StdEncoding.DecodeString(config.WriteFiles[0].Content)
	if err == nil {
		err = json.Unmarshal(raw, &join)
	}
	if err != nil {
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
	return join.Token, join.Account
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
	_, err := b.as(token).CoreV1().Nodes().Get(ctx, linuxNode, metav1.GetOptions{})
	if apierrors.IsUnauthorized(err) {
		return nil
	}
	return err
}

// cloudInit runs the stages of cloud-init on the machine, as its units do at a boot.
func (b *linuxBed) cloudInit(ctx context.Context, data string) {
	b.t.Helper()
	const seed = "/var/lib/cloud/seed/nocloud"
	text, err := os.ReadFile(data)
	if err != nil {
		b.t.Fatal(err)
	}
	for name, content := range map[string]string{"/etc/cloud/cloud.cfg": cloudConfig, seed + "/user-data": string(text),
		seed + "/meta-data": "instance-id: first-boot\n"} {
		at := b.machine.Path(name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, stage := range []string{"schema --config-file " + seed + "/user-data", "init --local", "init",
		"modules --mode=config", "modules --mode=final"} {
		cmd := b.machine.Command(ctx, append([]string{"cloud-init"}, strings.Fields(stage)...)...)
		cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} // a boot has no home folder
		out, err := cmd.CombinedOutput()
		if b.t.Logf("cloud-init %s:\n%s", stage, tail(string(out))); err != nil {
			log, _ := os.ReadFile(b.machine.Path("/var/log/cloud-init.log"))
			b.t.Fatalf("cloud-init %s: %v\n%s", stage, err, tail(string(log)))
		}
	}
}
