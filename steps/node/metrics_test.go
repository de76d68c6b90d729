package node

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

// TestMetrics: promtool finds no problem in the metrics, which are served on loopback and written to the textfile.
func TestMetrics(t *testing.T) {
	since := time.Unix(1700000000, 0)
	s := steps.GuardState{At: since, Checks: 7, Fixes: 2, Failures: 1, Problems: []steps.GuardProblem{
		{ID: "flanneld", Text: "it is stopped", Since: since}, {ID: `a "b\` + "\n", Since: since}}}
	text := Metrics("win-1", s, true)
	for _, text := range []string{text, Metrics("win-1", steps.GuardState{}, false)} {
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v of\n%s", err, problems, text)
		}
	}
	for _, want := range []string{`nodejoin_guard_in_order{node="win-1"} 0`, `nodejoin_guard_paused{node="win-1"} 1`,
		`nodejoin_guard_checks_total{node="win-1"} 7`,
		`nodejoin_guard_problem_since_timestamp_seconds{node="win-1",id="flanneld"} 1.7e+09`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	m := newMachine(t)
	out := &metrics{say: func(line string) { t.Error(line) }, host: m.Host}
	defer out.close()
	plan := steps.BootPlan{Node: "win-1", Guard: &steps.Guard{Listen: "127.0.0.1:39810",
		Textfile: `C:\metrics\nodejoin.prom`}}
	out.publish(t.Context(), plan, s, true)
	if have, _, err := host.ReadTail(t.Context(), m, plan.Guard.Textfile, 1<<20); err != nil || string(have) != text {
		t.Errorf("%s, %v", have, err)
	}
	for path, want := range map[string]int{"/metrics": 200, "/": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:39810"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if err != nil || reply.StatusCode != want || want == 200 && string(body) != text {
			t.Errorf("%s: %d, %v\n%s", path, reply.StatusCode, err, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// pair makes a certificate of win-1 that is its own authority, and its key.
func pair(t *testing.T, serial int64) (certificate, key []byte, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"win-1"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), pool
}

// TestMetricsOverTLS: with a certificate the metrics are served over TLS only, from the next connection on with the
// certificate that is there then; without its key they are not served at all.
func TestMetricsOverTLS(t *testing.T) {
	m := newMachine(t)
	said := ""
	out := &metrics{say: func(line string) { said += line }, host: m.Host}
	defer out.close()
	plan := steps.BootPlan{Node: "win-1", Guard: &steps.Guard{Listen: "127.0.0.1:39811", Certificate: `C:\n\m.crt`,
		Key: `C:\n\m.key`}}
	state := steps.GuardState{Checks: 7}
	put := func(path string, text []byte) {
		t.Helper()
		if err := m.WriteFile(t.Context(), path, bytes.NewReader(text), host.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	certificate, key, pool := pair(t, 1)
	put(plan.Guard.Certificate, certificate)
	out.publish(t.Context(), plan, state, false)
	if out.stop != nil || !strings.Contains(said, plan.Guard.Key) {
		t.Fatalf("served without a key; said %q", said)
	}
	put(plan.Guard.Key, key)
	out.publish(t.Context(), plan, state, false)
	get := func(url string, pool *x509.CertPool) (string, error) {
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "win-1", MinVersion: tls.VersionTLS12}}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		reply, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		return string(body), err
	}
	const url = "https://127.0.0.1:39811/metrics"
	if text, err := get(url, pool); err != nil || text != Metrics("win-1", state, false) {
		t.Errorf("over TLS: %v\n%s", err, text)
	}
	if text, _ := get("http://127.0.0.1:39811/metrics", pool); strings.Contains(text, "nodejoin_guard") {
		t.Errorf("in clear text: %s", text)
	}
	certificate, key, renewed := pair(t, 2)
	put(plan.Guard.Certificate, certificate)
	put(plan.Guard.Key, key)
	if _, err := get(url, renewed); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
	if _, err := get(url, pool); err == nil {
		t.Error("the old certificate is still served")
	}
}

// TestMetricsInAForeignFolder: nothing is written with all rights into a folder that others own or can change.
func TestMetricsInAForeignFolder(t *testing.T) {
	for _, c := range []struct{ os, folder, path string }{
		{"windows", `C:\app`, `C:\app\metrics\nodejoin.prom`},
		{"windows", `C:\metrics`, `C:\metrics\nodejoin.prom`},
		{"windows", `C:\metrics`, `C:\metrics\new\nodejoin.prom`},
		{"linux", "/srv/metrics", "/srv/metrics/nodejoin.prom"},
	} {
		dir := t.TempDir()
		h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir, OS: c.os})
		if err != nil {
			t.Fatal(err)
		}
		made := c.folder
		if strings.Contains(c.path, `\metrics\nodejoin`) {
			made = host.Dir(c.os, c.path) // its own folder is ours, that above is not
		}
		if err := h.Mkdir(t.Context(), made, host.AccessDefault); err != nil {
			t.Fatal(err)
		}
		quirks, err := json.Marshal(sandbox.Quirks{Open: []string{c.folder}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"), quirks, 0o600); err != nil {
			t.Fatal(err)
		}
		said := ""
		out := &metrics{say: func(line string) { said += line }, host: h}
		out.publish(t.Context(), steps.BootPlan{Node: "n", Guard: &steps.Guard{Textfile: c.path}}, steps.GuardState{}, false)
		there, err := host.Exists(t.Context(), h, c.path)
		if err != nil || there || !strings.Contains(said, c.folder+": "+host.ErrForeign.Error()) {
			t.Errorf("%s: written: %v, %v; said %q", c.path, there, err, said)
		}
	}
}
