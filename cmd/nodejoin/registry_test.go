package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// cmdRegistry starts a container registry on loopback and sets REGISTRY to its address: registry [NAME PASSWORD], with
// which it has a login.
func cmdRegistry(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 0 && len(args) != 2 {
		ts.Fatalf("usage: registry [NAME PASSWORD]")
	}
	all := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		if len(args) == 2 && (name != args[0] || password != args[1]) {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		all.ServeHTTP(w, r)
	}))
	ts.Defer(srv.Close)
	ts.Setenv("REGISTRY", strings.TrimPrefix(srv.URL, "http://"))
	ts.Setenv("REGISTRY_LOGIN", strings.Join(args, ":"))
}

// cmdPushImage pushes a new image of a few bytes for each platform: pushimage NAME PLATFORM..., where a platform is
// linux/amd64, or windows/amd64/10.0.20348.1.
func cmdPushImage(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: pushimage NAME PLATFORM...")
	}
	ref, err := name.ParseReference(args[0])
	ts.Check(err)
	var index v1.ImageIndex = empty.Index
	for _, p := range args[1:] {
		parts := strings.Split(p+"/", "/")
		image, err := random.Image(1000, 2)
		ts.Check(err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: parts[0], Architecture: parts[1], OSVersion: parts[2]}}})
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	ts.Check(remote.WriteIndex(ref, index, remote.WithTransport(transport)))
}

// cmdPushModule pushes an OCI artifact with one file, and sets MODULE to its address with its digest: pushmodule
// REPOSITORY FILE.
func cmdPushModule(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: pushmodule REPOSITORY FILE")
	}
	repository, err := name.NewRepository(args[0])
	ts.Check(err)
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(ts.ReadFile(args[1])), types.OCILayer))
	ts.Check(err)
	digest, err := image.Digest()
	ts.Check(err)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	ts.Check(remote.Write(repository.Digest(digest.String()), image, remote.WithTransport(transport)))
	ts.Setenv("MODULE", "oci://"+args[0]+"@"+digest.String())
}

// cmdPush pushes an artifact of one file, with the login of the registry: push REPOSITORY:TAG FILE.
func cmdPush(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: push REPOSITORY:TAG FILE")
	}
	ref, err := name.ParseReference(args[0])
	ts.Check(err)
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(ts.ReadFile(args[1])), types.OCILayer))
	ts.Check(err)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	user, password, _ := strings.Cut(ts.Getenv("REGISTRY_LOGIN"), ":")
	ts.Check(remote.Write(ref, image, remote.WithTransport(transport),
		remote.WithAuth(&authn.Basic{Username: user, Password: password})))
}

// cmdSSHKey writes a key of SSH, and a file in which it is trusted: sshkey KEY SIGNERS.
func cmdSSHKey(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sshkey KEY SIGNERS")
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	block, err := ssh.MarshalPrivateKey(key, "")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(block), 0o600))
	signer, err := ssh.NewSignerFromSigner(key)
	ts.Check(err)
	line := "ops@example " + string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(line), 0o600))
}
