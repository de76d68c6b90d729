package sandbox

import (
	"context"
	"fmt"
	"slices"

	"nodejoin/steps/host"
)

// factoryPorts returns the dynamic ports of a fresh Windows installation.
func factoryPorts(protocol string) host.PortRange {
	return host.PortRange{Protocol: protocol, First: 49152, Last: 65535}
}

// DynamicPorts returns the range of dynamic ports.
func (h *Host) DynamicPorts(ctx context.Context, protocol string) (host.PortRange, error) {
	out := factoryPorts(protocol)
	err := h.view(ctx, "read dynamic ports", protocol, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		if r, ok := s.Dynamic[protocol]; ok {
			out = r
		}
		return out.Valid()
	})
	return out, err
}

// SetDynamicPorts changes the range of dynamic ports.
func (h *Host) SetDynamicPorts(ctx context.Context, r host.PortRange) error {
	return failed("set dynamic ports", r.String(), h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		if err := r.ValidDynamic(); err != nil {
			return err
		}
		s.Dynamic[r.Protocol] = r
		if r == factoryPorts(r.Protocol) {
			delete(s.Dynamic, r.Protocol)
		}
		return nil
	}))
}

// PortsReserved reports whether a range is reserved.
func (h *Host) PortsReserved(ctx context.Context, r host.PortRange) (bool, error) {
	reserved := false
	err := h.view(ctx, "look for reserved ports", r.String(), func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		_, reserved = s.Reserved[r.String()]
		return r.Valid()
	})
	return reserved, err
}

// PortExcluded reports whether the quirks exclude a port.
func (h *Host) PortExcluded(ctx context.Context, protocol string, port uint16) (bool, error) {
	r := host.PortRange{Protocol: protocol, First: port, Last: port}
	q, err := h.ask(ctx, "PortExcluded", r.String())
	switch {
	case err != nil:
		return false, err
	case !h.windows():
		return false, failed("look for an excluded port", r.String(), host.ErrUnsupported)
	case r.Valid() != nil:
		return false, failed("look for an excluded port", r.String(), r.Valid())
	}
	held, err := h.Listeners(ctx)
	if err != nil || slices.ContainsFunc(held, func(l host.Listener) bool {
		return l.Protocol == protocol && l.Port == port
	}) {
		return false, err
	}
	return slices.ContainsFunc(q.Excluded, func(e host.PortRange) bool {
		return e.Protocol == protocol && e.First <= port && port <= e.Last
	}), nil
}

// ReservePorts reserves a range. No program may use one of its ports, and no other range may overlap it.
func (h *Host) ReservePorts(ctx context.Context, r host.PortRange) error {
	const op = "reserve ports"
	held, err := h.Listeners(ctx)
	if err != nil {
		return failed(op, r.String(), err)
	}
	return failed(op, r.String(), h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		if _, have := s.Reserved[r.String()]; have || r.Valid() != nil {
			return r.Valid()
		}
		for _, l := range held {
			if l.Protocol == r.Protocol && r.First <= l.Port && l.Port <= r.Last {
				return fmt.Errorf("%w: port %d", host.ErrBusy, l.Port)
			}
		}
		for _, o := range s.Reserved {
			if o.Protocol == r.Protocol && r.First <= o.Last && o.First <= r.Last {
				return fmt.Errorf("%w: %s are reserved", host.ErrBusy, o)
			}
		}
		s.Reserved[r.String()] = r
		return nil
	}))
}

// ReleasePorts removes a reservation.
func (h *Host) ReleasePorts(ctx context.Context, r host.PortRange) error {
	return failed("release ports", r.String(), h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		delete(s.Reserved, r.String())
		return r.Valid()
	}))
}
