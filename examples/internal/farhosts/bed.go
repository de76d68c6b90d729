//go:build linux

// Package farhosts runs hosts for measurements of nodejoin, if asked behind a slow link: OpenSSH servers of
// this machine, and hosts that cost little, which are sandboxes that this process serves over SSH.
package farhosts

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	gssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"
)

// Options of a Bed.
type Options struct {
	Dir string // for its files, made by New and removed by Close
	// Real hosts are OpenSSH servers, each with its own /srv and /root: they need root. Cheap ones are served by this
	// process.
	Real, Cheap int
	Link        *Link // in front of the hosts; nil = none
	// Address is where they listen, default 127.0.0.1.
	Address string
	// Called gets each mutating call of a cheap host, when it has been made; calls of several hosts come at once.
	Called func(Call)
}

// Host is one of them.
type Host struct {
	Name    string
	Address string
	Port    int
	Cheap   bool
}

// Bed is hosts that run.
type Bed struct {
	Hosts []Host
	opt   Options

	key       []byte // public, of all hosts, as in known_hosts
	signer    ssh.Signer
	servers   []*exec.Cmd
	listeners []net.Listener
	serving   sync.WaitGroup // accept connections
	cheap     *gssh.Server
	ports     sync.Map // port of a cheap host -> its name
	agents    sync.Map // file name of an agent -> its sha256
}

// New starts hosts.
func New(ctx context.Context, o Options) (b *Bed, err error) {
	if o.Address == "" {
		o.Address = "127.0.0.1"
	}
	b = &Bed{opt: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := b.keys(); err != nil {
		return nil, err
	}
	b.serveCheap(ctx)
	var list, known strings.Builder
	for i := range o.Real + o.Cheap {
		h := Host{Name: fmt.Sprintf("h%d", i+1), Address: o.Address, Cheap: i >= o.Real}
		if h.Cheap {
			h.Port, err = b.startCheap(ctx, h)
		} else {
			h.Port, err = b.startReal(ctx, h)
		}
		if err != nil {
			return nil, err
		}
		b.Hosts = append(b.Hosts, h)
		fmt.Fprintf(&list, "%s\t%s\t%d\t10.%d.%d.%d\t10.%d.%d.0/24\n", h.Name, h.Address, h.Port, i>>16, i>>8&255,
			i&255, 128+i>>8, i&255)
		fmt.Fprintf(&known, "[%s]:%d %s", h.Address, h.Port, b.key)
	}
	return b, errors.Join(os.WriteFile(b.path("hosts.tsv"), []byte(list.String()), 0o600),
		os.WriteFile(b.KnownHosts(), []byte(known.String()), 0o600))
}

func (b *Bed) path(name string) string { return filepath.Join(b.opt.Dir, name) }

// Key is the file of the private key that all hosts accept.
func (b *Bed) Key() string { return b.path("user") }

// KnownHosts is the file with the keys of all hosts.
func (b *Bed) KnownHosts() string { return b.path("known_hosts") }

// Env names the bed to run.sh of examples/bench.
func (b *Bed) Env() []string {
	return []string{"HP_HOSTS=" + b.path("hosts.tsv"), "HP_KEY=" + b.Key(), "HP_KNOWN_HOSTS=" + b.KnownHosts()}
}

// keys makes those of the user and of the hosts.
func (b *Bed) keys() error {
	for _, name := range []string{"user", "host"} {
		_, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			return err
		}
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			return err
		}
		block, err := ssh.MarshalPrivateKey(private, "")
		if err != nil {
			return err
		}
		b.signer, b.key = signer, ssh.MarshalAuthorizedKey(signer.PublicKey())
		if err := errors.Join(os.WriteFile(b.path(name), pem.EncodeToMemory(block), 0o600),
			os.WriteFile(b.path(name+".pub"), b.key, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// listen listens at a free port.
func (b *Bed) listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err == nil {
		b.listeners = append(b.listeners, l)
	}
	return l, err
}

// front puts the link in front of a server, and returns its port at this end.
func (b *Bed) front(ctx context.Context, target string) (port int, err error) {
	here, err := b.listen(ctx, b.opt.Address)
	if err != nil {
		return 0, err
	}
	link := b.opt.Link
	if link == nil {
		link = NewLink(0, 0)
	}
	b.serving.Go(func() { link.Serve(ctx, here, target) })
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

// Close ends the hosts.
func (b *Bed) Close() error {
	for _, l := range b.listeners {
		_ = l.Close() // it may be closed
	}
	if b.cheap != nil {
		_ = b.cheap.Close() // it has no error but those of its listeners
	}
	for _, s := range b.servers {
		_ = s.Process.Kill()
		_ = s.Wait() // it was killed
	}
	b.serving.Wait()
	return os.RemoveAll(b.opt.Dir)
}
