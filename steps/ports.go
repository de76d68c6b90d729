package steps

import (
	"context"
	"errors"
	"fmt"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var dynamicPortsKind = Kind{Name: "dynamic_ports", Place: OnHost, OS: "windows", Doc: "Windows: the ports that programs get which ask for any",
	Undo:  map[record.Prefix]Undo{record.DynamicPorts: {New: undoDynamicPorts}},
	New:   func() any { return &DynamicPorts{} },
	Makes: makes((*DynamicPorts).thing), Title: title((*DynamicPorts).title)}

var reservedPortsKind = Kind{Name: "reserved_ports", Place: OnHost, OS: "windows", Doc: "Windows: ports that no program gets which asks for any, also after a boot",
	Undo:  map[record.Prefix]Undo{record.ReservedPorts: {New: undoReservedPorts}},
	New:   func() any { return &ReservedPorts{} },
	Makes: makes((*ReservedPorts).thing), Title: title((*ReservedPorts).title)}

// DynamicPorts is the range of ports from which Windows gives a program one that asks
// for any, as each connection to the outside does.
type DynamicPorts struct {
	Protocol string `json:"protocol" doc:"\"tcp\" or \"udp\"" choices:"tcp,udp"`
	First    uint16 `json:"first" doc:"the first port, 1025 or higher"`
	Last     uint16 `json:"last" doc:"the last port; there are 255 or more"`
}

func (d *DynamicPorts) ports() host.PortRange { return host.PortRange(*d) }

func (d *DynamicPorts) thing(string) Thing {
	return Thing{Key: d.key(), Words: "the dynamic ports of " + d.Protocol}
}

func (d *DynamicPorts) title() string { return d.ports().String() }

func (d *DynamicPorts) key() record.Key { return record.DynamicPorts.Of(d.Protocol) }

func windowsPorts(e *Env, r host.PortRange, err error) error {
	switch {
	case e.Facts.OS != "windows":
		return Invalid("ports %s: on Linux they are kernel parameters, net.ipv4.ip_local_port_range and net.ipv4.ip_local_reserved_ports", r)
	case err != nil:
		return Invalid("%s", err)
	}
	return nil
}

func (d *DynamicPorts) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	if err := windowsPorts(e, d.ports(), d.ports().ValidDynamic()); err != nil {
		return Change{}, err
	}
	have, err := r.DynamicPorts(ctx, d.Protocol)
	if err != nil || have == d.ports() {
		return Change{}, err
	}
	return Change{Action: ActionUpdate, Diffs: []Diff{{Name: "ports", Have: have.String(), Want: d.ports().String()}}}, nil
}

func (d *DynamicPorts) Apply(ctx context.Context, h host.Host, e *Env, _ Change) (Outcome, error) {
	have, err := h.DynamicPorts(ctx, d.Protocol)
	if err != nil {
		return Outcome{}, err
	}
	if err := e.Claim(ctx, h, record.New{Key: d.key(), Previous: have}); err != nil {
		return Outcome{}, err
	}
	return Outcome{}, h.SetDynamicPorts(ctx, d.ports())
}

// undoDynamicPorts restores the earlier range.
func undoDynamicPorts(key record.Key, claim record.Claim) (Undoing, error) {
	protocol := key.Name
	want, err := record.Previous[host.PortRange](claim)
	return Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			have, err := r.DynamicPorts(ctx, protocol)
			if err != nil || have == want {
				return Change{}, "", err
			}
			return restored(Diff{Name: "ports", Have: have.String(), Want: want.String()}), "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *Env) error { return h.SetDynamicPorts(ctx, want) },
	}, err
}

// ReservedPorts is a range of ports that Windows gives to no program which asks for
// any: ports that services of the node or of the cluster have.
type ReservedPorts struct {
	Protocol string `json:"protocol" doc:"\"tcp\" or \"udp\"" choices:"tcp,udp"`
	First    uint16 `json:"first" doc:"the first port"`
	Last     uint16 `json:"last" doc:"the last port"`
}

func (p *ReservedPorts) ports() host.PortRange { return host.PortRange(*p) }

func (p *ReservedPorts) thing(string) Thing { return Thing{Key: p.key()} }

func (p *ReservedPorts) title() string { return p.ports().String() }

func (p *ReservedPorts) key() record.Key { return record.ReservedPorts.Of(p.ports().String()) }

func (p *ReservedPorts) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	if err := windowsPorts(e, p.ports(), p.ports().Valid()); err != nil {
		return Change{}, err
	}
	have, err := r.PortsReserved(ctx, p.ports())
	if err != nil || have {
		return Change{}, err
	}
	return Change{Action: ActionCreate, Diffs: []Diff{{Name: "ports", Want: p.ports().String()}}}, nil
}

func (p *ReservedPorts) Apply(ctx context.Context, h host.Host, e *Env, _ Change) (Outcome, error) {
	if err := e.Claim(ctx, h, record.New{Key: p.key()}); err != nil {
		return Outcome{}, err
	}
	err := h.ReservePorts(ctx, p.ports())
	if errors.Is(err, host.ErrBusy) {
		return Outcome{}, &Error{Code: CodeFailed, Summary: "a port is in use", Detail: err.Error(),
			Remedy: fmt.Sprintf("a program or another reservation has a port of %s: end it, restart the machine, or reserve other ports (netsh interface ipv4 show excludedportrange %s lists what is reserved)", p.ports(), p.Protocol)}
	}
	return Outcome{}, err
}

// undoReservedPorts releases ports that nodejoin has reserved.
func undoReservedPorts(key record.Key, _ record.Claim) (Undoing, error) {
	ports := key.Name
	r, err := host.ParsePortRange(ports)
	return Undoing{
		Check: func(ctx context.Context, h host.Reader, _ *Env) (Change, string, error) {
			have, err := h.PortsReserved(ctx, r)
			if err != nil || !have {
				return Change{}, "", err
			}
			return Change{Action: ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *Env) error { return h.ReleasePorts(ctx, r) },
	}, err
}
