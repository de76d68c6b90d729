package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// TestFilesAreParsedOnce: connections to many machines parse a file of keys once, and again when it has changed.
func TestFilesAreParsedOnce(t *testing.T) {
	dir := t.TempDir()
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintln(&lines, knownhosts.Line([]string{fmt.Sprintf("10.0.%d.%d", i>>8, i&255)},
			newSigner(t, ed25519Key(t)).PublicKey()))
	}
	known := writeText(t, filepath.Join(dir, "known_hosts"), lines.String())
	key := writeKey(t, filepath.Join(dir, "id"), ed25519Key(t), secret)
	t.Setenv("TEST_SECRET", secret)
	files := new(SSHFiles)
	login := func() {
		t.Helper()
		c := SSHConfig{Identity: []string{key}, PassphraseEnv: "TEST_SECRET", Files: files}
		h := hop{host: "10.0.0.1", port: 22, explicit: true, identity: c.Identity, agent: noAgent,
			knownHosts: []string{known, filepath.Join(dir, "none")}}
		k, err := newHostKeys(c, h)
		if err != nil || len(k.algorithms) != 1 {
			t.Errorf("%+v, %v", k, err)
		}
		l, err := newLogin(t.Context(), c, h)
		if err != nil || len(l.signers) != 1 {
			t.Errorf("%+v, %v", l, err)
		}
		l.close()
	}
	login()
	// To parse the file makes 15,000 allocations, to decrypt the key some 50 MB of work.
	if n := testing.AllocsPerRun(10, login); n > 500 {
		t.Errorf("%.0f allocations for a connection", n)
	}
	db, err := files.knownHosts([]string{known})
	if err != nil {
		t.Fatal(err)
	}
	lines.WriteString(knownhosts.Line([]string{"10.9.9.9"}, newSigner(t, ecdsaKey(t)).PublicKey()))
	writeText(t, known, lines.String())
	more, err := files.knownHosts([]string{known})
	if err != nil || more == db || len(db.HostKeys("10.9.9.9:22")) > 0 || len(more.HostKeys("10.9.9.9:22")) != 1 {
		t.Errorf("a line was added: %v, %v", more.HostKeys("10.9.9.9:22"), err)
	}
	plain := writeKey(t, filepath.Join(dir, "plain"), ed25519Key(t), "")
	before, err := files.key(plain, "")
	if err != nil {
		t.Fatal(err)
	}
	writeKey(t, plain, ecdsaKey(t), "")
	after, err := files.key(plain, "")
	if err != nil || before.PublicKey().Type() != ssh.KeyAlgoED25519 || after.PublicKey().Type() != ssh.KeyAlgoECDSA256 {
		t.Errorf("another key: %v, %v", after, err)
	}
	if err := os.Remove(plain); err != nil {
		t.Fatal(err)
	}
	if s, err := files.key(plain, ""); err == nil {
		t.Errorf("a key that is gone is still used: %v", s)
	}
}
