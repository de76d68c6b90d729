package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodejoin/steps/kube"
)

// writeKubeconfig creates a kubeconfig for server with a bearer token.
func writeKubeconfig(t *testing.T, server string, ca []byte) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "hush"}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	p := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func serve(t *testing.T, h http.HandlerFunc) (kube.API, *httptest.Server) {
	t.Helper()
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	srv.Config.ErrorLog = nil
	a, err := Open(t.Context(), Config{Kubeconfig: writeKubeconfig(t, srv.URL, certPEM(srv.Certificate().Raw))})
	if err != nil {
		t.Fatal(err)
	}
	return a, srv
}

// TestOtherToken: a token takes the place of the kubeconfig's credentials, and what else the kubeconfig says stays.
func TestOtherToken(t *testing.T) {
	var sent []string
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.TLS.ServerName+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	}))
	srv.StartTLS()
	t.Cleanup(srv.Close)
	path := writeKubeconfig(t, srv.URL, certPEM(srv.Certificate().Raw))
	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Clusters["c"].TLSServerName = "example.com" // a name of httptest's certificate
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "other"} {
		a, err := Open(t.Context(), Config{Kubeconfig: path, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Node(t.Context(), "n"); err == nil {
			t.Error("it is taken for an API server")
		}
		a.Close()
	}
	if want := []string{"example.com Bearer hush", "example.com Bearer other"}; !slices.Equal(sent, want) {
		t.Errorf("%q, want %q", sent, want)
	}
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newCA(t *testing.T) *x509.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPin(t *testing.T) {
	one, other := newCA(t), newCA(t)
	bundle := append(certPEM(other.Raw), certPEM(one.Raw)...)
	a, err := parseAuthority(bundle, strings.ToUpper(spkiHash(one)[:6])+spkiHash(one)[6:])
	if err != nil || a.pem != string(certPEM(one.Raw)) || a.hash != spkiHash(one) {
		t.Errorf("only the pinned CA is trusted: %+v, %v", a, err)
	}
	if a, err := parseAuthority(bundle, ""); err != nil || a.pem != string(bundle) || a.hash != spkiHash(other) {
		t.Errorf("without a pin: %+v, %v", a, err)
	}
	for pin, want := range map[string]string{spkiHash(newCA(t)): "expected sha256:", "sha256:abc": "64 hex digits",
		"md5:00": "64 hex digits"} {
		if _, err := parseAuthority(bundle, pin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pin %s: %v", pin, err)
		}
	}
	for _, b := range []string{"", "no pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := parseAuthority([]byte(b), ""); err == nil {
			t.Errorf("%q is accepted as a CA", b)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	ca := certPEM(newCA(t).Raw)
	asked := false
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer srv.Close()
	insecure := filepath.Join(t.TempDir(), "insecure")
	err := os.WriteFile(insecure, []byte(
		`{"apiVersion":"v1","kind":"Config","current-context":"x",`+
			`"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],`+
			`"clusters":[{"name":"c","cluster":{"server":"`+srv.URL+`","insecure-skip-tls-verify":true}}],`+
			`"users":[{"name":"u","user":{"token":"hush"}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	const contexts = "apiVersion: v1\nkind: Config\ncontexts:\n- {name: x, context: {cluster: c, user: u}}\n" +
		"- {name: w, context: {cluster: other, user: u}}\nclusters:\n- {name: c, cluster: {server: \"https://127.0.0.1\"}}\n"
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Kubeconfig: filepath.Join(t.TempDir(), "none")}, "none does not exist"},
		{Config{Kubeconfig: file("just text")}, "is not a kubeconfig: it must be YAML"},
		{Config{Kubeconfig: file("[]")}, "is not a kubeconfig: it must be YAML"},
		{Config{Kubeconfig: file("")}, "names no cluster, no user and no context"},
		{Config{Kubeconfig: file(contexts)}, "it has no current-context; choose one of its contexts (w, x)"},
		{Config{Kubeconfig: file(contexts + "current-context: z\n")},
			`current-context "z" is not one of its contexts (w, x)`},
		{Config{Kubeconfig: file(contexts + "current-context: w\n")}, `of the cluster "other", which it does not have`},
		{Config{Kubeconfig: writeKubeconfig(t, srv.URL, nil)}, "names no CA"},
		{Config{Kubeconfig: writeKubeconfig(t, "http://127.0.0.1:8080", ca)}, "does not use https"},
		{Config{Kubeconfig: insecure}, "does not verify the API server"},
		{Config{Kubeconfig: writeKubeconfig(t, srv.URL, ca), CAHash: "sha256:" + strings.Repeat("0", 64)},
			"not the pinned one"},
	} {
		if _, err := Open(t.Context(), c.config); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("have %v, want %q", err, c.want)
		}
	}
	a, err := Open(t.Context(), Config{Kubeconfig: writeKubeconfig(t, srv.URL, ca)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Info(t.Context()); err == nil || errors.Is(err, kube.ErrUnreachable) ||
		!strings.Contains(err.Error(), "is not signed by the CA") {
		t.Errorf("another CA: %v", err)
	}
	if asked {
		t.Error("a request was sent to a server that is not trusted")
	}
}

// status answers as an API server does.
func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: "Failure", Code: int32(code), Reason: reason, Message: message})
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		title  string
		answer http.HandlerFunc
		is     error
		want   string
	}{
		{"absent", func(w http.ResponseWriter, r *http.Request) {
			status(w, 404, metav1.StatusReasonNotFound, `nodes "win-1" not found`)
		}, fs.ErrNotExist, "reading the Node win-1"},
		{"credentials", func(w http.ResponseWriter, r *http.Request) {
			status(w, 401, metav1.StatusReasonUnauthorized, "Unauthorized")
		}, kube.ErrUnauthorized, "https://127.0.0.1"},
		{"permission", func(w http.ResponseWriter, r *http.Request) {
			status(w, 403, metav1.StatusReasonForbidden, `User "dev" cannot get resource "nodes"`)
		}, kube.ErrForbidden, `cannot get resource "nodes"`},
		{"overload", func(w http.ResponseWriter, r *http.Request) {
			status(w, 503, metav1.StatusReasonServiceUnavailable, "down")
		}, kube.ErrUnreachable, "https://127.0.0.1"},
		{"a gateway", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
			kube.ErrUnreachable, "https://127.0.0.1"},
		{"not an API server", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, nil,
			"responds, but not like an API server"},
		{"a web page", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") }, nil, ""},
	} {
		a, _ := serve(t, c.answer)
		_, err := a.Node(t.Context(), "win-1")
		if _, e := a.Info(t.Context()); c.is != nil && !errors.Is(e, c.is) {
			t.Errorf("%s: Info: %v", c.title, e)
		}
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: have %v", c.title, err)
		}
		for _, other := range []error{fs.ErrNotExist, kube.ErrUnreachable, kube.ErrUnauthorized, kube.ErrForbidden} {
			if !errors.Is(c.is, other) && errors.Is(err, other) {
				t.Errorf("%s: %v is also %v", c.title, err, other)
			}
		}
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ca := certPEM(newCA(t).Raw)
	for _, server := range []string{"https://" + addr, "https://name.invalid:6443"} {
		a, err := Open(t.Context(), Config{Kubeconfig: writeKubeconfig(t, server, ca)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Info(t.Context()); !errors.Is(err, kube.ErrUnreachable) || !strings.Contains(err.Error(), server) {
			t.Errorf("%s: %v", server, err)
		}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a, err := Open(t.Context(), Config{Kubeconfig: writeKubeconfig(t, "https://"+silent.Addr().String(), ca),
		Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Node(t.Context(), "win-1"); !errors.Is(err, kube.ErrUnreachable) {
		t.Errorf("silent server: %v", err)
	}
	k := &client{server: "https://192.0.2.1:6443"}
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF, &net.OpError{Op: "read", Err: syscall.ECONNRESET}} {
		if err := k.fail(t.Context(), "asking", &url.Error{Op: "Get", URL: "x", Err: cut}); !errors.Is(err,
			kube.ErrUnreachable) {
			t.Errorf("cut: %v", err)
		}
	}
	// A call that the caller cancels is not a failure of the server.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, _ = serve(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := a.Info(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, kube.ErrUnreachable) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSetTaintsTakesUpAConflict(t *testing.T) {
	patches := 0
	taints := `[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule","new-field":1},` +
		`{"key":"old","effect":"NoExecute"}]`
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			var ops []struct {
				Op, Path string
				Value    json.RawMessage
			}
			if err := json.NewDecoder(r.Body).Decode(&ops); err != nil || len(ops) != 2 || ops[0].Op != "test" ||
				ops[1].Path != "/spec/taints" {
				t.Errorf("patch %+v, %v", ops, err)
			}
			if patches++; patches == 1 { // another writer comes between
				taints = strings.Replace(taints, "]", `,{"key":"foreign","effect":"NoSchedule"}]`, 1)
			}
			if string(ops[0].Value) != taints {
				status(w, 422, metav1.StatusReasonInvalid, "the server rejected our request due to an error in our request")
				return
			}
			taints = string(ops[1].Value)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"win-1"},"spec":{"taints":%s}}`, taints)
	})
	set := []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}}
	for range 2 {
		if err := a.SetTaints(t.Context(), "win-1", set, []kube.Taint{{Key: "old", Effect: "NoExecute"}}); err != nil {
			t.Fatal(err)
		}
	}
	want := `[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule","new-field":1},` +
		`{"key":"foreign","effect":"NoSchedule"},{"key":"os","value":"windows","effect":"NoSchedule"}]`
	if taints != want {
		t.Errorf("have %s", taints)
	}
	if patches != 2 {
		t.Errorf("%d patches: the second call had nothing to change", patches)
	}
}

func TestSetTaintsRefused(t *testing.T) {
	patches := 0
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			patches++
			status(w, 422, metav1.StatusReasonInvalid, "a qualified name must consist of")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"win-1"},"spec":{}}`)
	})
	err := a.SetTaints(t.Context(), "win-1", []kube.Taint{{Key: "no key!", Effect: "NoSchedule"}}, nil)
	if err == nil || !strings.Contains(err.Error(), "qualified name") || patches != 1 {
		t.Errorf("%v after %d patches", err, patches)
	}
}

func TestUncovered(t *testing.T) {
	have := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"watch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"one"}},
		{APIGroups: []string{"apps"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}
	rule := func(group, resource string, verbs ...string) kube.Rule {
		return kube.Rule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	want := []kube.Rule{rule("", "secrets", "get"), rule("", "nodes", "get", "patch")}
	all := append(slices.Clone(want), rule("", "nodes", "get", "list", "watch"), rule("apps", "deployments", "delete"))
	if d := cmp.Diff(want, uncovered(have, all)); d != "" {
		t.Error(d)
	}
}

func TestNodeOf(t *testing.T) {
	n := &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "fd00::/64", PodCIDRs: []string{"fd00::/64", "10.244.1.0/24"}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
				Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "x"},
				{Type: corev1.NodeInternalIP, Address: "fd00::1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	have := (&client{}).nodeOf(n)
	want := kube.Node{PodCIDR: "10.244.1.0/24", InternalIP: "192.0.2.1",
		ReadyReason: "NodeStatusUnknown: Kubelet stopped posting node status."}
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
}

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("a", 60) + ".example.test"
	if v := labelValue(long); len(v) > 63 || v == labelValue(long+"x") {
		t.Errorf("%q", v)
	}
	if v := labelValue("win-1"); v != "win-1" {
		t.Errorf("%q", v)
	}
	if a, b := randomText(16), randomText(16); a == b || len(a) != 16 ||
		strings.Trim(a, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		t.Errorf("%q, %q", a, b)
	}
}
