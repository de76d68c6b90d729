package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"nodejoin/examples/acceptance/internal/netproxy"
)

// planRepository is a repository of distribution's registry, with the releases of a publisher. Machines reach it
// through a proxy of TCP, which keeps its address while the registry is down.
type planRepository struct {
	p       *releaseServer
	storage string
	addr    string // of the proxy
	own     string // of the registry itself
	kill    func()
	proxy   *netproxy.Proxy
}

func (p *releaseServer) newRepository(ctx context.Context) *planRepository {
	p.t.Helper()
	r := &planRepository{p: p, storage: p.t.TempDir(), addr: p.ca.listen}
	r.start(ctx)
	p.t.Cleanup(func() { r.proxy.Close() })
	return r
}

func (r *planRepository) source() string { return "oci://" + r.addr + "/plans:site" }

// start starts the registry, with what it had.
func (r *planRepository) start(ctx context.Context) {
	r.p.t.Helper()
	r.own, r.kill = r.p.ca.startRegistry(ctx, r.storage, "plans", "", "")
	var err error
	if r.proxy, err = netproxy.StartOn(r.addr, r.own, 0); err != nil {
		r.p.t.Fatal(err)
	}
	r.addr = fmt.Sprintf("%s:%d", r.p.b.machine.Gateway(), r.proxy.Port())
}

// push writes the release that is there into the repository, the bundle first. It returns the size of the bundle.
func (r *planRepository) push(ctx context.Context) (size int) {
	r.p.t.Helper()
	for _, file := range []struct{ name, tag string }{{"site.tar", "site-bundle"}, {"site.tar.release", "site"}} {
		text, err := os.ReadFile(filepath.Join(r.p.dir, file.name))
		if err != nil {
			r.p.t.Fatal(err)
		}
		r.p.ca.pushFile(ctx, r.own, "plans", file.tag, text)
		size = max(size, len(text))
	}
	return size
}

// diesSending pushes the release that is there, and kills the registry when a machine has a part of its bundle.
func (r *planRepository) diesSending(ctx context.Context) {
	r.p.t.Helper()
	const part = 256 << 10 // more than all else that a round reads
	held := r.proxy.HoldAfter(part)
	if size := r.push(ctx); size < 2*part {
		r.p.t.Fatalf("the bundle has %d bytes, too few to be cut", size)
	}
	select {
	case <-held:
	case <-ctx.Done():
		r.p.t.Fatalf("no machine reads the bundle: %v", context.Cause(ctx))
	}
	r.kill()
	r.proxy.Close()
	until(ctx, r.p.t, "a round that got a part of the bundle", func() error {
		if r.p.logged("broke off after") == 0 {
			return errors.New("no round says so")
		}
		return nil
	})
}
