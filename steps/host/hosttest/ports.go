package hosttest

import (
	"context"
	"io/fs"

	"nodejoin/steps/host"
)

func (s *suite) dynamicPorts() {
	want := host.PortRange{Protocol: "tcp", First: 34000, Last: 65535}
	have, err := s.Host.DynamicPorts(s.ctx, "tcp")
	if !s.Ports {
		s.is("read", err, host.ErrUnsupported)
		s.is("set", s.Host.SetDynamicPorts(s.ctx, want), host.ErrUnsupported)
		return
	}
	s.must(err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), limit)
		defer cancel()
		s.must(s.Host.SetDynamicPorts(ctx, have))
	})
	udp, err := s.Host.DynamicPorts(s.ctx, "udp")
	s.must(err)
	s.must(s.Host.SetDynamicPorts(s.ctx, want))
	now, err := s.Host.DynamicPorts(s.ctx, "tcp")
	s.must(err)
	s.equal("ports", now, want)
	other, err := s.Host.DynamicPorts(s.ctx, "udp")
	s.must(err)
	s.equal("ports of the other protocol", other, udp)
	for _, bad := range []host.PortRange{{Protocol: "tcp", First: 1024, Last: 65535},
		{Protocol: "tcp", First: 40000, Last: 40100}, {Protocol: "sctp", First: 40000, Last: 50000}} {
		s.is("set "+bad.String(), s.Host.SetDynamicPorts(s.ctx, bad), fs.ErrInvalid)
	}
	_, err = s.Host.DynamicPorts(s.ctx, "sctp")
	s.is("another protocol", err, fs.ErrInvalid)
}

func (s *suite) reservedPorts() {
	r := host.PortRange{Protocol: "udp", First: 61330, Last: 61334}
	have, err := s.Host.PortsReserved(s.ctx, r)
	if !s.Ports {
		s.is("look", err, host.ErrUnsupported)
		s.is("reserve", s.Host.ReservePorts(s.ctx, r), host.ErrUnsupported)
		s.is("release", s.Host.ReleasePorts(s.ctx, r), host.ErrUnsupported)
		return
	}
	s.must(err)
	s.equal("reserved before", have, false)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), limit)
		defer cancel()
		s.must(s.Host.ReleasePorts(ctx, r))
	})
	is := func(what string, r host.PortRange, want bool) {
		s.Helper()
		have, err := s.Host.PortsReserved(s.ctx, r)
		s.must(err)
		s.equal(what, have, want)
	}
	for range 2 {
		s.must(s.Host.ReservePorts(s.ctx, r))
		is("reserved", r, true)
	}
	tcp, part := r, r
	tcp.Protocol, part.Last = "tcp", r.First
	is("the other protocol", tcp, false)
	is("a part", part, false)
	s.is("reserve a part", s.Host.ReservePorts(s.ctx, part), host.ErrBusy)
	for range 2 {
		s.must(s.Host.ReleasePorts(s.ctx, r))
		is("released", r, false)
	}
	for _, bad := range []host.PortRange{{Protocol: "tcp", Last: 5}, {Protocol: "tcp", First: 9, Last: 5},
		{First: 5, Last: 5}} {
		_, err := s.Host.PortsReserved(s.ctx, bad)
		s.is("look for "+bad.String(), err, fs.ErrInvalid)
		s.is("reserve "+bad.String(), s.Host.ReservePorts(s.ctx, bad), fs.ErrInvalid)
		s.is("release "+bad.String(), s.Host.ReleasePorts(s.ctx, bad), fs.ErrInvalid)
	}
}

// excludedPorts: a free port is not excluded, and neither is one that a program uses.
func (s *suite) excludedPorts() {
	if !s.Ports {
		_, err := s.Host.PortExcluded(s.ctx, "tcp", 61335)
		s.is("look", err, host.ErrUnsupported)
		return
	}
	for _, protocol := range []string{"tcp", "udp"} {
		have, err := s.Host.PortExcluded(s.ctx, protocol, 61335)
		s.must(err)
		s.equal(protocol+", free", have, false)
	}
	if s.HTTP != nil {
		url, _, stop := s.HTTP(s.T)
		have, err := s.Host.PortExcluded(s.ctx, "tcp", serverAddress(s, url).Port())
		s.must(err)
		s.equal("held", have, false)
		stop()
	}
	for _, bad := range []host.PortRange{{Protocol: "tcp"}, {Protocol: "sctp", First: 5}} {
		_, err := s.Host.PortExcluded(s.ctx, bad.Protocol, bad.First)
		s.is("look for "+bad.String(), err, fs.ErrInvalid)
	}
}
