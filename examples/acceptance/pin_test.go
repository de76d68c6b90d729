package acceptance_test

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"nodejoin/examples/acceptance/internal/mirror"
)

// TestWrongPin: a kubeconfig whose CA differs from the one that the plan pins is refused without a connection
// to its address. Without the pin there is a connection.
func TestWrongPin(t *testing.T) {
	ctx, cancel := bounded(t, 5*time.Minute)
	defer cancel()
	var asked atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			asked.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["it"] = &clientcmdapi.Cluster{Server: server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	config.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: "of-the-administrator"}
	config.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	config.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	dir, artifacts, err := mirror.Make(ctx, componentSet(t), "windows")
	if err != nil {
		t.Fatal(err)
	}
	const pin = "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	v := variables{APIServer: server.URL, CAHash: pin, Kubeconfig: kubeconfig,
		Hosts:  map[string]string{nodeName: "127.0.0.1"},
		Mirror: dir, SHA256: map[string]string{}, User: "nobody", Port: closedPort(t), Identity: []string{},
		KnownHosts: []string{}}
	for name, a := range artifacts {
		v.SHA256[name] = a.SHA256
	}

	r := apply(ctx, t, v.write(t), nil)
	if r.code == 0 || !strings.Contains(r.String(), pin) {
		t.Errorf("want an error that names the pin: %s", r)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d connections to a server whose CA is not the pinned one", n)
	}
	v.CAHash = ""
	if r := apply(ctx, t, v.write(t), nil); r.code == 0 || asked.Load() == 0 {
		t.Errorf("%d connections without the pin: %s", asked.Load(), r)
	}
}

// closedPort returns a loopback port that nothing listened on a moment ago.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
