package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// preflightCheck is a row of the table.
type preflightCheck struct {
	id       string
	severity steps.Severity
	os       string // checked on this OS only; "" = on all
	why      string
	// look returns what does not hold. It judges absence itself; an error means that it could not check.
	look func(ctx context.Context, s *pass) ([]observed, error)
}

// observed is what a check found, and what to do about it.
type observed struct{ what, remedy string }

// found returns one thing found.
func found(remedy, format string, args ...any) ([]observed, error) {
	return []observed{{fmt.Sprintf(format, args...), remedy}}, nil
}

// pass is one pass over the table. It asks the machine once for what several checks need.
type pass struct {
	q *Preflight
	r host.Reader
	e *steps.Env

	adaptersKnown bool
	adapterList   []host.Adapter
	adaptersErr   error
	joinedKnown   bool
	joined        []string
	joinedErr     error
	apiKnown      bool
	apiAnswer     host.APIAnswer
	apiErr        error
}

func (s *pass) facts() host.Facts { return s.e.Facts }

func (s *pass) adapters(ctx context.Context) ([]host.Adapter, error) {
	if !s.adaptersKnown {
		s.adapterList, s.adaptersErr = s.r.Adapters(ctx)
		s.adaptersKnown = true
	}
	return s.adapterList, s.adaptersErr
}

// network is the network of the node's address; if no adapter has that, of the machine's own address.
func (s *pass) network(ctx context.Context) string {
	list, _ := s.adapters(ctx) // the checks report the error
	for _, a := range list {
		for _, p := range a.Prefixes() {
			if p.Addr() == s.address() {
				return p.Masked().String()
			}
		}
	}
	return s.facts().Subnet
}

// own names the node's services that nodejoin has registered.
func (s *pass) own(ctx context.Context) ([]string, error) {
	if s.joinedKnown {
		return s.joined, s.joinedErr
	}
	s.joinedKnown = true
	for _, name := range s.q.Services {
		svc, err := s.r.Service(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			s.joinedErr = errors.Join(s.joinedErr, err)
		case steps.Ours(svc, s.e.Record):
			s.joined = append(s.joined, name)
		}
	}
	return s.joined, s.joinedErr
}

// address is the node's IPv4 address; invalid if neither plan nor machine has one.
func (s *pass) address() netip.Addr {
	text := s.q.Address
	if text == "" || steps.HasRef(text) {
		text = s.facts().ManagementIP
	}
	ip, _ := netip.ParseAddr(text)
	return ip
}

// owner is the adapter that has the node's address.
func (s *pass) owner(ctx context.Context) (host.Adapter, bool, error) {
	list, err := s.adapters(ctx)
	ip := s.address()
	for _, a := range list {
		for _, p := range a.Prefixes() {
			if p.Addr() == ip {
				return a, true, err
			}
		}
	}
	return host.Adapter{}, false, err
}

// clusterNetwork is one network of the cluster, of the pods or of the services.
type clusterNetwork struct {
	what string
	netip.Prefix
}

// taken are the networks that the machine's own must not overlap.
func (s *pass) taken() []clusterNetwork {
	out := s.clusterNetworks()
	if p, err := netip.ParsePrefix(s.q.Placeholder); err == nil {
		out = append(out, clusterNetwork{"placeholder on the adapter", p})
	}
	return out
}

// clusterNetworks are those of the cluster, with what they are for.
func (s *pass) clusterNetworks() []clusterNetwork {
	var out []clusterNetwork
	for _, of := range []struct{ what, networks string }{{"pods", s.q.PodCIDR}, {"services", s.q.ServiceCIDR}} {
		for text := range strings.SplitSeq(of.networks, ",") {
			if p, err := netip.ParsePrefix(text); err == nil {
				out = append(out, clusterNetwork{of.what, p})
			}
		}
	}
	return out
}

// registered returns those services that the machine has and the node does not use.
func (s *pass) registered(ctx context.Context, names ...string) ([]host.Service, error) {
	var out []host.Service
	for _, name := range names {
		svc, err := s.r.Service(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		if !slices.ContainsFunc(slices.Concat(s.q.Services, s.q.Required), func(own string) bool {
			return strings.EqualFold(own, name)
		}) {
			out = append(out, svc)
		}
	}
	return out, nil
}

// splitPort reads "tcp/10250".
func splitPort(text string) (protocol string, port uint16, ok bool) {
	protocol, number, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	return protocol, uint16(n), err == nil && n > 0 && (protocol == "tcp" || protocol == "udp")
}

// reason is the error without the operation, which the finding names already.
func reason(err error) error {
	var he *host.Error
	if errors.As(err, &he) {
		return he.Err
	}
	return err
}
