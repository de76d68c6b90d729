package pull

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// keyFile writes a new private key of ed25519, and returns its file with the key.
func keyFile(t *testing.T) (string, ssh.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return writeKey(t, private)
}

func writeKey(t *testing.T, private any) (string, ssh.Signer) {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return file, key
}

// signersFile writes a file of trusted keys.
func signersFile(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "allowed_signers")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	closeFile(t, file)
	return file
}

// line is a key as a file of trusted keys has it, with its name and options.
func line(before string, key ssh.Signer) string {
	return before + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
}

// signed signs a bundle as a command does.
func signed(t *testing.T, s Signing, bundle string) (string, Release, error) {
	t.Helper()
	if err := s.Check(false, Checking{}, bundle); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		return "", Release{}, err
	}
	r, err := s.write(bundle)
	return bundle + Suffix, r, err
}

// Verify verifies a release with keys of SSH.
func Verify(bundle, signers string) (Release, string, error) {
	return Checking{Signers: signers}.verify(bundle)
}

func bundleFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prod.tar")
	if err := os.WriteFile(file, []byte("a bundle"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// textOf is what is signed of a release.
func textOf(file []byte) []byte {
	_, text, _ := bytes.Cut(file, []byte(sigEnds))
	return text
}

// TestRelease: a release is signed by keys of each type that is trusted, and says which bundle it is of.
func TestRelease(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, private := range map[string]any{"ed25519": ed, "ecdsa": ec, "rsa": rs} {
		file, key := writeKey(t, private)
		bundle := bundleFile(t)
		began := time.Now().Unix()
		at, wrote, err := signed(t, Signing{Key: file}, bundle)
		if err != nil || at != bundle+".release" {
			t.Fatalf("%s: %s, %v", name, at, err)
		}
		r, by, err := Verify(bundle, signersFile(t, "# trusted", "", line("ops@example", key)))
		if err != nil || by != "ops@example" || r != wrote || r.Plan != "prod" || r.Bundle != "prod.tar" || r.Size != 8 ||
			r.Serial < began {
			t.Errorf("%s: %+v by %q, %v", name, r, by, err)
		}
	}
}

// TestReleaseRefused: nothing but a release that a trusted key has signed for this bundle is taken.
func TestReleaseRefused(t *testing.T) {
	file, key := keyFile(t)
	_, other := keyFile(t)
	for name, c := range map[string]struct {
		signers string
		change  func(text []byte) []byte
		want    string
	}{
		"not signed":           {line("a", key), textOf, "it is not signed"},
		"cut in the signature": {line("a", key), func(b []byte) []byte { return b[:100] }, "it is not signed"},
		"cut in the release":   {line("a", key), func(b []byte) []byte { return b[:len(b)-20] }, "was changed after it"},
		"changed": {line("a", key), func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"plan": "prod"`), []byte(`"plan": "prox"`), 1)
		}, "was changed after it was signed"},
		"something behind it": {line("a", key), func(b []byte) []byte { return append(b, ' ') }, "was changed after"},
		"empty":               {line("a", key), func([]byte) []byte { return nil }, "it is not signed"},
		"damaged signature": {line("a", key), func(b []byte) []byte {
			return bytes.Replace(b, []byte("-----\nU1NI"), []byte("-----\n*1NI"), 1)
		}, "its signature is damaged"},
		"not of ssh": {line("a", key), func(b []byte) []byte {
			return bytes.Replace(b, []byte("-----\nU1NI"), []byte("-----\nU1NJ"), 1)
		}, "damaged, or of an unknown version"},
		"another key":  {line("a", other), nil, "of a key that is not trusted here: SHA256:"},
		"key for git":  {line(`a namespaces="git,file"`, key), nil, "has no key that may sign releases"},
		"not this one": {line(`a namespaces="*,!release@*"`, key), nil, "has no key that may sign releases"},
		"too early":    {line(`a valid-after="29990101"`, key), nil, "the key of a is trusted from 2999"},
		"too late":     {line(`a valid-before="20200101120000Z"`, key), nil, "was trusted until 2020-01-01T12:00:00Z"},
		"no time":      {line(`a valid-before="tomorrow"`, key), nil, `: line 1: "tomorrow" is not a time`},
		"authority":    {line(`a cert-authority`, key), nil, ": line 1: the option cert-authority is not known"},
		"no key":       {"a ssh-ed25519", nil, ": line 1: want 'NAME [OPTIONS] TYPE KEY'"},
		"no keys":      {"# none", nil, "has no key that may sign releases"},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := bundleFile(t)
			at, _, err := signed(t, Signing{Key: file, Serial: 7}, bundle)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				b = c.change(b)
			}
			if err := os.WriteFile(at, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err = Verify(bundle, signersFile(t, c.signers)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	bundle := bundleFile(t)
	if _, _, err := signed(t, Signing{Key: file}, bundle); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bundle, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Verify(bundle, signersFile(t, line("a", key))); err == nil ||
		!strings.Contains(err.Error(), "is the release of a bundle with the sha256") {
		t.Error(err)
	}
}

// TestReleaseIncomplete: a key that is trusted cannot sign what is not a release.
func TestReleaseIncomplete(t *testing.T) {
	_, key := keyFile(t)
	good := Release{Version: 1, Plan: "p", Serial: 1, Bundle: "b.tar", Size: 1, SHA256: strings.Repeat("0", 64)}
	for want, change := range map[string]func(*Release){
		"version 1":                   func(r *Release) { r.Version = 2 },
		"the release is not complete": func(r *Release) { r.Serial = -1 },
		"beside the release":          func(r *Release) { r.Bundle = "../b.tar" },
	} {
		r := good
		change(&r)
		if _, err := r.text(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	text := []byte(`{"version": 1, "more": true}`)
	signature, err := sign(key, text)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := readSigners(signersFile(t, line("a", key)), readTrust)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(append(signature, text...), Trusted{Keys: trusted}, time.Now()); err == nil ||
		!strings.Contains(err.Error(), "is not a release of a plan") {
		t.Error(err)
	}
}

// TestSigningKeys: what cannot sign is said.
func TestSigningKeys(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	locked, garbage := filepath.Join(t.TempDir(), "locked"), filepath.Join(t.TempDir(), "garbage")
	for file, b := range map[string][]byte{locked: pem.EncodeToMemory(block), garbage: []byte("x")} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	cannot := "SSH_AUTH_SOCK is not set"
	if runtime.GOOS == "windows" {
		cannot = "ssh-agent"
	}
	for file, want := range map[string]string{locked: cannot, garbage: "is not a private key of SSH"} {
		bundle := bundleFile(t)
		if _, _, err := signed(t, Signing{Key: file}, bundle); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Stat(bundle + Suffix); !os.IsNotExist(err) {
			t.Errorf("a release is there: %v", err)
		}
	}
}

// TestSigningAgent: the ssh-agent signs with a key of which the file has the public part, or that has a passphrase.
func TestSigningAgent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its agents are pipes; TestWindowsAgent of transport has them")
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	key, err := ssh.NewSignerFromKey(private)
	must(t, err)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	must(t, err)
	folder, err := os.MkdirTemp("", "agent") // a short path, as those of sockets are limited
	must(t, err)
	defer os.RemoveAll(folder)
	public, locked := filepath.Join(folder, "id.pub"), filepath.Join(folder, "id")
	must(t, os.WriteFile(public, ssh.MarshalAuthorizedKey(key.PublicKey()), 0o600))
	must(t, os.WriteFile(locked, pem.EncodeToMemory(block), 0o600))
	socket := filepath.Join(folder, "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	must(t, err)
	ring := agent.NewKeyring()
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { _ = agent.ServeAgent(ring, c) }) // it ends with its client
		}
	})
	defer served.Wait()
	defer l.Close()
	t.Setenv("SSH_AUTH_SOCK", socket)
	bundle := bundleFile(t)
	if _, _, err := signed(t, Signing{Key: public}, bundle); err == nil ||
		!strings.Contains(err.Error(), "the ssh-agent does not have this key") {
		t.Error(err)
	}
	must(t, ring.Add(agent.AddedKey{PrivateKey: private}))
	for _, file := range []string{public, locked} {
		_, _, err := signed(t, Signing{Key: file}, bundle)
		must(t, err)
		if _, by, err := Verify(bundle, signersFile(t, line("ops", key))); err != nil || by != "ops" {
			t.Errorf("%s: by %q, %v", file, by, err)
		}
		must(t, os.Remove(bundle+Suffix))
	}
}

// TestSSHKeygen: OpenSSH's ssh-keygen takes our signatures, and we take its own.
func TestSSHKeygen(t *testing.T) {
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not on this machine")
	}
	file, key := keyFile(t)
	bundle := bundleFile(t)
	at, _, err := signed(t, Signing{Key: file}, bundle)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	text := textOf(b)
	signers := signersFile(t, line(`ops namespaces="release@nodejoin.dev"`, key))
	keygen := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, args...)
		c.Stdin = bytes.NewReader(text)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	keygen("-Y", "verify", "-f", signers, "-I", "ops", "-n", namespace, "-s", at)
	release := filepath.Join(t.TempDir(), "release.json")
	if err := os.WriteFile(release, text, 0o600); err != nil {
		t.Fatal(err)
	}
	keygen("-Y", "sign", "-f", file, "-n", namespace, release)
	signature, err := os.ReadFile(release + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, append(signature, text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, by, err := Verify(bundle, signers); err != nil || by != "ops" {
		t.Errorf("by %q, %v", by, err)
	}
}

// TestSigningFlags: flags that do not go together are refused.
func TestSigningFlags(t *testing.T) {
	for want, c := range map[string]struct {
		s     Signing
		split bool
		check Checking
	}{
		"--signers goes with --check":          {check: Checking{Signers: "x"}},
		"--sigstore goes with --check":         {check: Checking{Sigstore: "x"}},
		"--serial goes with --sign":            {s: Signing{Serial: 1}},
		"cannot be the name of a plan":         {s: Signing{Key: "x", Plan: "A B"}},
		"--serial must be 1 or more":           {s: Signing{Key: "x", Serial: -1}},
		"a release needs a bundle in one file": {s: Signing{Key: "x"}, split: true},
		"leave out --split":                    {s: Signing{ToSign: true}, split: true},
	} {
		if err := c.s.Check(c.split, c.check, "a/prod.tar"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := Signing{Key: "x"}
	if err := s.Check(false, Checking{}, "a/prod.tar"); err != nil || s.Plan != "prod" {
		t.Errorf("%q, %v", s.Plan, err)
	}
}
