package acceptance_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"nodejoin/examples/acceptance/internal/ecr"
)

// Who logs in at the registries of the tests.
const (
	registryUser     = "puller"
	registryPassword = "n0t-for-you:really"
)

// registryCA signs the registries' certificates, those of their clients, and their tokens.
type registryCA struct {
	t      *testing.T
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pool   *x509.CertPool
	listen string   // where registries listen
	ips    []net.IP // of all certificates, as names
	names  []string
}

func newRegistryCA(t *testing.T) *registryCA {
	t.Helper()
	return newRegistryCAFor(t, "127.0.0.1:0")
}

// newRegistryCAFor is newRegistryCA for registries that listen elsewhere and have names.
func newRegistryCAFor(t *testing.T, listen string, names ...string) *registryCA {
	t.Helper()
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		t.Fatal(err)
	}
	a := &registryCA{t: t, dir: t.TempDir(), pool: x509.NewCertPool(), listen: listen, ips: []net.IP{net.ParseIP(host)},
		names: names}
	a.cert, a.key = a.sign("ca", true)
	a.pool.AddCert(a.cert)
	return a
}

// sign makes a certificate for the registries' addresses and writes NAME.pem and NAME.key.
func (a *registryCA) sign(name string, authority bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		IsCA: authority, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: a.ips, DNSNames: a.names}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der},
		".key": {Type: "PRIVATE KEY", Bytes: text}} {
		if err := os.WriteFile(a.file(name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return out, key
}

func (a *registryCA) file(name string) string { return filepath.Join(a.dir, name) }

// client trusts the CA and shows the certificate NAME, "" = none.
func (a *registryCA) client(name string) *http.Client {
	a.t.Helper()
	c := &tls.Config{RootCAs: a.pool}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: c}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// registry runs distribution's registry with TLS until the test ends. Its images are below storage. more is what its
// configuration has beside that: how it knows who asks. It returns the address, without a scheme.
func (a *registryCA) registry(ctx context.Context, storage, name, more, tlsMore string) string {
	a.t.Helper()
	addr, _ := a.startRegistry(ctx, storage, name, more, tlsMore)
	return addr
}

// startRegistry is registry, with what kills it.
func (a *registryCA) startRegistry(ctx context.Context, storage, name, more, tlsMore string) (addr string,
	kill func()) {
	a.t.Helper()
	listener, err := net.Listen("tcp", a.listen)
	if err != nil {
		a.t.Fatal(err)
	}
	addr = listener.Addr().String()
	if err := listener.Close(); err != nil {
		a.t.Fatal(err)
	}
	a.sign(name, false)
	config := a.file(name + ".yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: warn}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp:\n"+
		"  addr: %s\n  secret: x\n  tls:\n    certificate: %s\n    key: %s\n%s%s", storage, addr, a.file(name+".pem"),
		a.file(name+".key"), tlsMore, more)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(componentSet(a.t).Bin("registry"), "serve", config)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-ended //nolint:errcheck // it was killed
	})
	a.t.Cleanup(func() {
		kill()
		if a.t.Failed() {
			a.t.Logf("registry %s:\n%s", name, tail(log.String()))
		}
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = c.Close()
			return addr, kill
		}
		select {
		case err := <-ended:
			ended <- err
			a.t.Fatalf("the registry ended: %v\n%s", err, log.String())
		case <-ctx.Done():
			a.t.Fatal(context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// basic is a registry that asks for the password itself.
func (a *registryCA) basic(ctx context.Context, storage string) string {
	a.t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(registryPassword), bcrypt.MinCost)
	if err != nil {
		a.t.Fatal(err)
	}
	line := fmt.Sprintf("%s:%s\n%s:%[2]s\n", registryUser, hash, ecr.User)
	if err := os.WriteFile(a.file("htpasswd"), []byte(line), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return a.registry(ctx, storage, "basic", fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}\n",
		a.file("htpasswd")), "")
}

// byToken is a registry that sends who asks to another server for a token. That server gives one to the user.
func (a *registryCA) byToken(ctx context.Context, storage string) string {
	a.t.Helper()
	at := a.serve(a.tokens(false))
	return a.registry(ctx, storage, "token", a.tokenAuth(at), "")
}

// forEverybody is a registry behind a server with the same address for tokens: the user writes and everybody reads.
// Clients refuse a token server that has another private address than the registry (go-containerregistry, bearer.go).
func (a *registryCA) forEverybody(ctx context.Context, storage string) string {
	a.t.Helper()
	behind := &httputil.ReverseProxy{Transport: a.client("").Transport}
	mux := http.NewServeMux()
	mux.Handle("/token", a.tokens(true))
	mux.Handle("/", behind)
	at := a.serve(mux)
	registry := a.registry(ctx, storage, "token", "  relativeurls: true\n"+a.tokenAuth(at), "")
	behind.Rewrite = func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "https", Host: registry}) }
	return at
}

func (a *registryCA) tokenAuth(at string) string {
	return fmt.Sprintf("auth: {token: {realm: \"https://%s/token\", service: test, issuer: test, rootcertbundle: %s}}\n",
		at, a.file("ca.pem"))
}

// tokens gives tokens to the user, and for reading to everybody if readable.
func (a *registryCA) tokens(readable bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, login := r.BasicAuth()
		scope := r.URL.Query().Get("scope")
		everybody := readable && !login && strings.HasSuffix(scope, ":pull")
		if (user != registryUser || password != registryPassword) && !everybody {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": a.token(scope)})
	})
}

// serve runs a server with TLS until the test ends, and returns its address.
func (a *registryCA) serve(handler http.Handler) string {
	a.t.Helper()
	a.sign("server", false)
	pair, err := tls.LoadX509KeyPair(a.file("server.pem"), a.file("server.key"))
	if err != nil {
		a.t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(a.listen)
	if err != nil {
		a.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		a.t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, TLS: &tls.Config{Certificates: []tls.Certificate{pair}},
		Config: &http.Server{Handler: handler, ReadHeaderTimeout: 30 * time.Second}}
	server.StartTLS()
	a.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// token is a token for a scope, "repository:app:pull", as distribution's registry reads it.
func (a *registryCA) token(scope string) string {
	parts := append(strings.Split(scope, ":"), "", "", "")
	encode := func(v any) string {
		text, _ := json.Marshal(v) // of strings and numbers
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := encode(map[string]any{"typ": "JWT", "alg": "ES256",
		"x5c": []string{base64.StdEncoding.EncodeToString(a.cert.Raw)}}) + "." + encode(map[string]any{"iss": "test",
		"sub": registryUser, "aud": "test", "exp": time.Now().Add(time.Hour).Unix(),
		"nbf": time.Now().Add(-time.Hour).Unix(),
		"iat": time.Now().Unix(), "jti": "1", "access": []any{map[string]any{"type": parts[0], "name": parts[1],
			"actions": strings.Split(parts[2], ",")}}})
	sum := sha256.Sum256([]byte(signed))
	der, err := a.key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		a.t.Error(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(rawSignature(der))
}

// rawSignature is a P-256 signature in DER as JWTs have it: both numbers with 32 bytes.
func rawSignature(der []byte) []byte {
	out := make([]byte, 64)
	rest := der[2:] // SEQUENCE
	for i := range 2 {
		n := int(rest[1])
		new(big.Int).SetBytes(rest[2 : 2+n]).FillBytes(out[32*i : 32*i+32])
		rest = rest[2+n:]
	}
	return out
}

// byCertificate is a registry that knows who asks by the client's certificate.
func (a *registryCA) byCertificate(ctx context.Context, storage string) string {
	a.t.Helper()
	return a.registry(ctx, storage, "certificate", "", fmt.Sprintf("    clientcas: [%s]\n", a.file("ca.pem")))
}

// push writes an image of one small file into a registry.
func (a *registryCA) push(ctx context.Context, addr, name string) {
	a.t.Helper()
	a.pushImage(ctx, addr, name, tarOf(a.t, map[string][]byte{"hello": []byte("hello")}, "hello"))
}

// pushImage writes an image of one layer that runs a command on Linux.
func (a *registryCA) pushImage(ctx context.Context, addr, name string, layer []byte, command ...string) {
	a.t.Helper()
	text, _ := a.pushPlatform(ctx, addr, name, [][]byte{layer}, map[string]any{"os": "linux", "architecture": "amd64",
		"config": map[string]any{"Entrypoint": command}})
	a.pushManifest(ctx, addr, name, "1", imageMedia+"manifest.v1+json", text)
}

const imageMedia = "application/vnd.oci.image."

// pushPlatform writes the layers and the configuration of an image, and returns its manifest with what refers to it.
func (a *registryCA) pushPlatform(ctx context.Context, addr, name string, layers [][]byte, config map[string]any) (
	text []byte, descriptor map[string]any) {
	a.t.Helper()
	ids, list := []string{}, []any{}
	push := func(blob []byte, kind string) map[string]any {
		return a.pushBlob(ctx, addr, name, blob, imageMedia+kind)
	}
	for _, layer := range layers {
		ids, list = append(ids, digestOf(layer)), append(list, push(layer, "layer.v1.tar"))
	}
	config["rootfs"] = map[string]any{"type": "layers", "diff_ids": ids}
	conf, _ := json.Marshal(config)
	text, _ = json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": imageMedia + "manifest.v1+json",
		"config": push(conf, "config.v1+json"), "layers": list})
	return text, map[string]any{"mediaType": imageMedia + "manifest.v1+json", "digest": digestOf(text),
		"size": len(text), "platform": config}
}

// pushBlob writes a blob and returns what refers to it.
func (a *registryCA) pushBlob(ctx context.Context, addr, name string, blob []byte, media string) map[string]any {
	a.t.Helper()
	at := a.send(ctx, http.MethodPost, "https://"+addr+"/v2/"+name+"/blobs/uploads/", "", nil, http.StatusAccepted)
	a.send(ctx, http.MethodPut, at+"&digest="+digestOf(blob), "application/octet-stream", blob, http.StatusCreated)
	return map[string]any{"mediaType": media, "digest": digestOf(blob), "size": len(blob)}
}

// pushFile writes an artifact of one file, as oras does.
func (a *registryCA) pushFile(ctx context.Context, addr, name, tag string, file []byte) {
	a.t.Helper()
	const media = imageMedia + "manifest.v1+json"
	text, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": media,
		"artifactType": "application/vnd.unknown.artifact.v1",
		"config":       a.pushBlob(ctx, addr, name, []byte("{}"), "application/vnd.oci.empty.v1+json"),
		"layers":       []any{a.pushBlob(ctx, addr, name, file, imageMedia+"layer.v1.tar")}})
	a.pushManifest(ctx, addr, name, tag, media, text)
}

func (a *registryCA) pushManifest(ctx context.Context, addr, name, tag, media string, text []byte) {
	a.t.Helper()
	a.send(ctx, http.MethodPut, "https://"+addr+"/v2/"+name+"/manifests/"+tag, media, text, http.StatusCreated)
}

// pushBoth writes an image for Linux, of one layer, and one for Windows with the same name.
func (a *registryCA) pushBoth(ctx context.Context, addr, name string, layer []byte, command ...string) {
	a.t.Helper()
	var list []any
	for _, of := range []map[string]any{{"os": "linux", "architecture": "amd64",
		"config": map[string]any{"Entrypoint": command}}, {"os": "windows", "architecture": "amd64",
		"os.version": "10.0.20348.2000"}} {
		layers := [][]byte{layer}
		if of["os"] == "windows" {
			layers = [][]byte{} // only Windows itself unpacks its layers: Wine has no Host Compute Service
		}
		text, descriptor := a.pushPlatform(ctx, addr, name, layers, of)
		a.pushManifest(ctx, addr, name, digestOf(text), imageMedia+"manifest.v1+json", text)
		list = append(list, descriptor)
	}
	text, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": imageMedia + "index.v1+json",
		"manifests": list})
	a.pushManifest(ctx, addr, name, "1", imageMedia+"index.v1+json", text)
}

// logIn is what 'docker login' would leave for run.
func (a *registryCA) logIn(addr string) {
	a.t.Helper()
	login := base64.StdEncoding.EncodeToString([]byte(registryUser + ":" + registryPassword))
	if err := os.WriteFile(a.file("config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, addr, login),
		0o600); err != nil {
		a.t.Fatal(err)
	}
}

// run runs nodejoin with the logins, and with the CA as the only one that this machine trusts.
func (a *registryCA) run(ctx context.Context, args ...string) (out string, code int) {
	a.t.Helper()
	cmd := released(a.t).command(ctx, a.t, args...)
	cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+a.dir, "SSL_CERT_FILE="+a.file("ca.pem"),
		"SSL_CERT_DIR=/dev/null")
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.t.Fatal(err)
	}
	noSecret(a.t, args[0], text)
	if strings.Contains(string(text), registryPassword) {
		a.t.Errorf("%s shows the password:\n%s", args[0], text)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// send sends a request with the user's password and returns where the answer sends to.
func (a *registryCA) send(ctx context.Context, method, url, media string, body []byte, want int) string {
	a.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.SetBasicAuth(registryUser, registryPassword)
	r.Header.Set("Content-Type", media)
	resp, err := a.client("").Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != want {
		a.t.Fatalf("%s %s: %s\n%s", method, url, resp.Status, text)
	}
	return resp.Header.Get("Location")
}
