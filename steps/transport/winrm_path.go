package transport

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"nodejoin/steps/transport/wsman"
)

// winrmPath is the path to a machine's WinRM: straight, or through the SSH servers of jump hosts.
type winrmPath struct {
	hops   []hop // the last one is the machine
	way    *way  // of the jump hosts; nil = there is none
	first  sync.Once
	remote string // the machine's address and port
	local  string // where the connection comes from; "" = from a jump host
}

// open connects, through the jump hosts, and opens a shell, within c.Timeout.
func (p *winrmPath) open(ctx context.Context, c WinRMConfig, client *wsman.Client) (*wsman.Shell, error) {
	ctx, cancel := within(ctx, c.Timeout)
	defer cancel()
	machine := p.hops[0]
	if c.Through != nil && len(c.Through.Jump) > 0 {
		file, err := c.Through.readConfig()
		if err == nil {
			p.hops, err = c.Through.jumps(file, c.Through.Jump, "")
		}
		if err != nil {
			return nil, unusable(c.Host, err)
		}
		p.hops = append(p.hops, machine)
		w := new(way)
		if err := w.dial(ctx, *c.Through, p.hops, len(p.hops)-1); err != nil {
			return nil, err
		}
		p.way, p.remote = w, machine.addr()
	}
	shell, err := client.Open(ctx)
	if err != nil {
		return nil, placed(refusedWinRM(c, machine.name(), err), p.hops, len(p.hops)-1)
	}
	return shell, nil
}

// dial opens a byte stream to the machine.
func (p *winrmPath) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if p.way != nil {
		return p.way.last().DialContext(ctx, network, addr)
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil { // before any other request
		p.first.Do(func() { p.remote, p.local = conn.RemoteAddr().String(), conn.LocalAddr().String() })
	}
	return conn, err
}

// ends are the two addresses of a connection, if it is direct.
func (p *winrmPath) ends() (local, remote netip.AddrPort, direct bool) {
	local, err := netip.ParseAddrPort(p.local)
	if err == nil {
		remote, err = netip.ParseAddrPort(p.remote)
	}
	return local, remote, err == nil
}

// blame adds to the error of a lost connection which jump host has ended it, as way.blame does.
func (p *winrmPath) blame(life context.Context, begin func(func()), err error) error {
	if p.way == nil {
		return err
	}
	return p.way.blame(life, begin, err, len(p.way.clients))
}

func (p *winrmPath) close() {
	if p.way != nil {
		p.way.close()
	}
}
