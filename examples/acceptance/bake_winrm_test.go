package acceptance_test

import (
	"crypto/rand"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/wine"
)

// TestBakeWinRM: a machine without an SSH server is baked over WinRM, and gets such a server. Its disk has neither the
// password, nor its name, nor the host key that the server has made.
func TestBakeWinRM(t *testing.T) {
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newBedWith(ctx, t, startCluster(ctx, t), wine.Options{NoSSH: true})
	password := rand.Text()
	addr, digest := b.serveWinRM(ctx, t, password)
	v := b.variables(b.host.Port())
	_, port, _ := strings.Cut(addr, ":")
	var err error
	if v.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	v.Hosts = map[string]string{bakedNode: "127.0.0.1"}
	t.Setenv(winrmPassword, password)
	args := append([]string{"bake", "--auto-approve"}, v.with(t, b.winrmPlan(t, digest))...)
	for range 2 { // an image may be baked again
		out := released(t).must(ctx, t, args...)
		if !strings.Contains(out, bakedNode+" is ready to be an image.") {
			t.Fatalf("bake:\n%s", out)
		}
		t.Logf("bake:\n%s", tail(out))
	}
	if err := b.host.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{`C:\ProgramData\ssh\ssh_host_ed25519_key`, `C:\ProgramData\ssh\ssh_host_rsa_key`} {
		if _, err := os.Lstat(b.host.Path(file)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", file, err)
		}
	}
	if _, err := os.Stat(b.host.Path(`C:\ProgramData\containerd`)); err != nil {
		t.Errorf("the image has nothing of the plan: %v", err)
	}
	b.withoutTraces(bakedNode, password)
}
