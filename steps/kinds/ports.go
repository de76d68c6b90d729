package kinds

import (
	"context"
	"errors"
	"fmt"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// The prefixes of the claims.
const (
	dynamicPortsPrefix  record.Prefix = "dynamic_ports"
	reservedPortsPrefix record.Prefix = "reserved_ports"
)

var dynamicPortsKind = steps.Kind{Name: "dynamic_ports", Place: steps.OnHost, Image: true, OS: "windows",
	Doc: "Windows: the range of ports for programs that ask for any port",
	Undo: map[record.Prefix]steps.Undo{dynamicPortsPrefix: {Called: "dynamic ports", New: undoDynamicPorts,
		Early: always, Now: dynamicPortsNow}},
	New:   func() any { return &DynamicPorts{} },
	Makes: steps.Makes((*DynamicPorts).thing), Title: steps.Title((*DynamicPorts).title)}

var reservedPortsKind = steps.Kind{Name: "reserved_ports", Place: steps.OnHost, Image: true, OS: "windows",
	Doc: "Windows: ports that programs asking for any port do not get, also after a boot",
	Undo: map[record.Prefix]steps.Undo{reservedPortsPrefix: {Called: "reserved ports", New: undoReservedPorts,
		Early: always,
		Now:   reservedPortsNow}},
	New:   func() any { return &ReservedPorts{} },
	Makes: steps.Makes((*ReservedPorts).thing), Title: steps.Title((*ReservedPorts).title)}

// DynamicPorts is the range of ports from which Windows gives a program one that asks
// for any, as each connection to the outside does.
type DynamicPorts struct {
	Protocol string `json:"protocol" doc:"\"tcp\" or \"udp\"" choices:"tcp,udp"`
	First    uint16 `json:"first" doc:"the first port, 1025 or higher"`
	Last     uint16 `json:"last" doc:"the last port; there are 255 or more"`
}

func (d *DynamicPorts) ports() host.PortRange { return host.PortRange(*d) }

func (d *DynamicPorts) thing(string) steps.Thing {
	return steps.Thing{Key: d.key(), Words: "the dynamic ports of " + d.Protocol}
}

func (d *DynamicPorts) title() string { return d.ports().String() }

func (d *DynamicPorts) key() record.Key { return dynamicPortsPrefix.Of(d.Protocol) }

func windowsPorts(e *steps.Env, r host.PortRange, err error) error {
	switch {
	case e.Facts.OS != "windows":
		return steps.Invalid("ports %s: on Linux they are kernel parameters, net.ipv4.ip_local_port_range and "+
			"net.ipv4.ip_local_reserved_ports", r)
	case err != nil:
		return steps.Invalid("%s", err)
	}
	return nil
}

func (d *DynamicPorts) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := windowsPorts(e, d.ports(), d.ports().ValidDynamic()); err != nil {
		return steps.Change{}, err
	}
	have, err := r.DynamicPorts(ctx, d.Protocol)
	if err != nil || have == d.ports() {
		return steps.Change{}, err
	}
	return steps.Change{Action: steps.ActionUpdate,
		Diffs: []steps.Diff{{Name: "ports", Have: have.String(), Want: d.ports().String()}}}, nil
}

func (d *DynamicPorts) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	have, err := h.DynamicPorts(ctx, d.Protocol)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := e.Claim(ctx, h, record.New{Key: d.key(), Previous: have}); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, h.SetDynamicPorts(ctx, d.ports())
}

func dynamicPortsNow(ctx context.Context, r host.Reader, _ *steps.Env, key record.Key, _ record.Claim) (any, error) {
	return r.DynamicPorts(ctx, key.Name)
}

// undoDynamicPorts restores the earlier range.
func undoDynamicPorts(key record.Key, claim record.Claim) (steps.Undoing, error) {
	protocol := key.Name
	want, err := record.Previous[host.PortRange](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := r.DynamicPorts(ctx, protocol)
			if err != nil || have == want {
				return steps.Change{}, "", err
			}
			return steps.Restored(steps.Diff{Name: "ports", Have: have.String(), Want: want.String()}), "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error { return h.SetDynamicPorts(ctx, want) },
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

func (p *ReservedPorts) thing(string) steps.Thing { return steps.Thing{Key: p.key()} }

func (p *ReservedPorts) title() string { return p.ports().String() }

func (p *ReservedPorts) key() record.Key { return reservedPortsPrefix.Of(p.ports().String()) }

func (p *ReservedPorts) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := windowsPorts(e, p.ports(), p.ports().Valid()); err != nil {
		return steps.Change{}, err
	}
	have, err := r.PortsReserved(ctx, p.ports())
	if err != nil || have {
		return steps.Change{}, err
	}
	return steps.Change{Action: steps.ActionCreate, Diffs: []steps.Diff{{Name: "ports", Want: p.ports().String()}}}, nil
}

func (p *ReservedPorts) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	if err := e.Claim(ctx, h, record.New{Key: p.key()}); err != nil {
		return steps.Outcome{}, err
	}
	err := h.ReservePorts(ctx, p.ports())
	if errors.Is(err, host.ErrBusy) {
		return steps.Outcome{}, &steps.Error{Code: steps.CodeFailed, Summary: "a port is in use", Detail: err.Error(),
			Remedy: fmt.Sprintf("a program or another reservation has a port of %s: end it, restart the machine, or reserve "+
				"other ports (netsh interface ipv4 show excludedportrange %s lists what is reserved)", p.ports(), p.Protocol)}
	}
	return steps.Outcome{}, err
}

// reservedPortsNow is true where the ports are reserved.
func reservedPortsNow(ctx context.Context, r host.Reader, _ *steps.Env, key record.Key, _ record.Claim) (any, error) {
	ports, err := host.ParsePortRange(key.Name)
	if err != nil {
		return nil, err
	}
	have, err := r.PortsReserved(ctx, ports)
	if err != nil || !have {
		return nil, err
	}
	return true, nil
}

// undoReservedPorts releases ports that nodejoin has reserved, or, in a rollback, reserves
// those again that were reserved before.
func undoReservedPorts(key record.Key, claim record.Claim) (steps.Undoing, error) {
	ports := key.Name
	r, err := host.ParsePortRange(ports)
	return steps.Undoing{
		Check: func(ctx context.Context, h host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := h.PortsReserved(ctx, r)
			switch {
			case err != nil || have == claim.Existed:
				return steps.Change{}, "", err
			case claim.Existed:
				return steps.Restored(), "", nil
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			if claim.Existed {
				return h.ReservePorts(ctx, r)
			}
			return h.ReleasePorts(ctx, r)
		},
	}, err
}
