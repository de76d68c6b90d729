//go:build linux

package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// bed is the hosts behind a link.
type bed struct {
	dir       string
	servers   []*exec.Cmd
	listeners []net.Listener
	links     sync.WaitGroup
}

// settings are what the plan's templates want beside the hosts.
var settings = map[string]any{"api_server": "https://10.0.0.10:6443", "cluster_dns": "10.96.0.10",
	"cluster_cidr": "10.244.0.0/16", "service_cidr": "10.96.0.0/12", "pause_image": "pause:3.10",
	"bootstrap_token": "none", "kube_version": "1.36.3"}

func newBed(ctx context.Context, dir string, hosts int, link *link) (b *bed, err error) {
	b = &bed{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{"user", "host"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(dir, name)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w\n%s", err, out)
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		return nil, err
	}
	var list, known strings.Builder
	for i := 1; i <= hosts; i++ {
		port, err := b.host(ctx, i, link)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&list, "h%d\t127.0.0.1\t%d\t10.0.0.%d\t10.244.%d.0/24\n", i, port, i, i)
		fmt.Fprintf(&known, "[127.0.0.1]:%d %s", port, key)
	}
	return b, errors.Join(os.WriteFile(filepath.Join(dir, "hosts.tsv"), []byte(list.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "known_hosts"), []byte(known.String()), 0o600))
}

// env names the bed to run.sh.
func (b *bed) env() []string {
	return []string{"HP_HOSTS=" + filepath.Join(b.dir, "hosts.tsv"), "HP_KEY=" + filepath.Join(b.dir, "user"),
		"HP_KNOWN_HOSTS=" + filepath.Join(b.dir, "known_hosts")}
}

// host starts a host and returns its port at this end of the link.
func (b *bed) host(ctx context.Context, i int, link *link) (port int, err error) {
	here, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	b.listeners = append(b.listeners, here)
	free, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	target := free.Addr().String()
	root, config := filepath.Join(b.dir, fmt.Sprint(i)), filepath.Join(b.dir, fmt.Sprintf("sshd-%d", i))
	err = errors.Join(free.Close(), os.MkdirAll(filepath.Join(root, "srv"), 0o755), os.MkdirAll(filepath.Join(root,
		"root"), 0o700), os.WriteFile(config, fmt.Appendf(nil, "ListenAddress %s\nHostKey %s/host\nAuthorizedKeysFile "+
		"%[2]s/user.pub\nStrictModes no\nPidFile none\nPermitRootLogin yes\nUsePAM no\nLogLevel ERROR\n"+
		"Subsystem sftp internal-sftp\n", target, b.dir), 0o600))
	if err != nil {
		return 0, err
	}
	// Its /root and /srv are its own, and what it runs ends with it.
	sshd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
		"sh", "-ec", `mount --bind "$1/srv" /srv; mount --bind "$1/root" /root; mount -t tmpfs none /run; mkdir /run/sshd; `+
			`exec /usr/sbin/sshd -D -e -f "$2"`, "sh", root, config)
	sshd.Dir, sshd.Stderr = "/", os.Stderr
	sshd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := sshd.Start(); err != nil {
		return 0, err
	}
	b.servers = append(b.servers, sshd)
	if err := answers(ctx, target); err != nil {
		return 0, err
	}
	b.links.Go(func() { link.serve(ctx, here, target) })
	return here.Addr().(*net.TCPAddr).Port, nil
}

// answers waits until somebody listens.
func answers(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, fmt.Errorf("nothing listens at %s", address))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (b *bed) close() error {
	for _, l := range b.listeners {
		_ = l.Close() // it may be closed
	}
	for _, s := range b.servers {
		_ = s.Process.Kill()
		_ = s.Wait() // it was killed
	}
	b.links.Wait()
	return os.RemoveAll(b.dir)
}

// makeArchives writes four archives of size MB together, which cannot be compressed, and returns the variables of
// run.sh.
func makeArchives(dir string, size int) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	vars, list := map[string]any{}, []any{}
	for name, value := range settings {
		vars[name] = value
	}
	for _, a := range []struct {
		name  string
		share float64
	}{{"crictl", 1}, {"cni-plugins", 20}, {"containerd", 50}, {"kubernetes-node", 100}} {
		sum, err := makeArchive(filepath.Join(dir, a.name+".tar.gz"), a.name, int64(a.share/171*float64(size)*1e6))
		if err != nil {
			return nil, err
		}
		list = append(list, map[string]any{"name": a.name, "sha256": sum})
	}
	vars["archives"] = list
	return json.MarshalIndent(vars, "", " ")
}

func makeArchive(file, name string, size int64) (sum string, err error) {
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, h), gzip.NoCompression)
	if err != nil {
		return "", err
	}
	t := tar.NewWriter(z)
	err = t.WriteHeader(&tar.Header{Name: name + "/bin/" + name, Mode: 0o755, Size: size})
	if err == nil {
		_, err = io.CopyN(t, rand.Reader, size)
	}
	err = errors.Join(err, t.Close(), z.Close(), f.Close())
	return hex.EncodeToString(h.Sum(nil)), err
}
