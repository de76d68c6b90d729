package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// Quirks are properties of a machine that no mutating call of nodejoin sets. They are read from the file
// .sandbox/quirks.json below Path at each question, so that a person or a test can make the machine unfit. What
// the file omits is as on a machine in good order.
type Quirks struct {
	Memory    uint64             `json:"memory,omitempty"`    // bytes, default 16 GiB
	CPUs      int                `json:"cpus,omitempty"`      // default 4
	Swap      uint64             `json:"swap,omitempty"`      // bytes in use
	Cgroup    string             `json:"cgroup,omitempty"`    // default v2, on linux
	HostName  string             `json:"host_name,omitempty"` // that the machine came with, default that of Config
	Domain    string             `json:"domain,omitempty"`    // that it is a member of
	NoAdmin   bool               `json:"no_admin,omitempty"`
	Adapters  []host.Adapter     `json:"adapters,omitempty"`  // default: one, with the machine's address
	Listeners []host.Listener    `json:"listeners,omitempty"` // besides those of the simulated programs
	Excluded  []host.PortRange   `json:"excluded,omitempty"`  // ports that no program gets
	Networks  []host.HNSNetwork  `json:"networks,omitempty"`  // HNS networks besides flanneld's
	Endpoints []host.HNSEndpoint `json:"endpoints,omitempty"` // HNS endpoints; the simulated programs create none
	// API is why an API server does not answer: "name" (the name cannot be resolved), or the text of an error;
	// "" = it answers.
	API string `json:"api,omitempty"`
	// APICertificates are the certificates that it presents, in DER; none = not known.
	APICertificates [][]byte `json:"api_certificates,omitempty"`
	// TCP is why a connection to another machine fails, likewise.
	TCP string `json:"tcp,omitempty"`
	// Features are added to those of Windows, or override them: Containers is on and Microsoft-Hyper-V is off
	// by default.
	Features map[string]host.FeatureState `json:"features,omitempty"`
	// Open are folders that users can rename. List does not report it.
	Open []string `json:"open,omitempty"`
	// Authorities are those that the machine trusts without nodejoin: sha256 in hex.
	Authorities []string      `json:"authorities,omitempty"`
	ClockSkew   time.Duration `json:"clock_skew,omitempty"` // how far the machine's clock is ahead, in nanoseconds
	// Unasked are the questions that the machine cannot answer: names of methods of host.Reader, and
	// "RegistryValue KEY" for one key.
	Unasked []string `json:"unasked,omitempty"`
}

func (h *Host) quirks() (Quirks, error) {
	q := Quirks{}
	err := readJSON(filepath.Join(h.cfg.Path, stateDir, "quirks.json"), &q)
	if q.Memory == 0 {
		q.Memory = 16 << 30
	}
	if q.CPUs == 0 {
		q.CPUs = 4
	}
	return q, err
}

// ask returns the quirks, or an error if the question named method is one of Unasked.
func (h *Host) ask(ctx context.Context, method, subject string) (Quirks, error) {
	if ctx.Err() != nil {
		return Quirks{}, failed("ask for", subject, context.Cause(ctx))
	}
	q, err := h.quirks()
	if err == nil && slices.Contains(q.Unasked, method) {
		err = errors.New("it cannot be asked (quirks.json)")
	}
	return q, failed("ask for", subject, err)
}

// factoryRegistry returns the registry values of a fresh machine that nodejoin reads: a server with the
// Containers feature, which adds the services hns and vmcompute, and a page file that Windows manages.
func (h *Host) factoryRegistry(q Quirks) map[string]map[string]host.RegistryValue {
	text := func(s string) host.RegistryValue { return host.RegistryValue{Type: "string", String: s} }
	number := func(n uint64) host.RegistryValue { return host.RegistryValue{Type: "dword", Number: n} }
	const control = `hklm\system\currentcontrolset\control\`
	const services = `hklm\system\currentcontrolset\services\`
	came := or(q.HostName, h.cfg.Hostname)
	name := text(host.NetBIOSName(came))
	revision, _, _ := strings.Cut(strings.TrimPrefix(h.cfg.Build, "10.0."), ".")
	return map[string]map[string]host.RegistryValue{
		`hklm\software\microsoft\windows nt\currentversion`: {"currentbuildnumber": text(revision),
			"productname":      text(h.product()),
			"installationtype": text("Server"), "ubr": number(9999)},
		control + `computername\computername`:       {"computername": name},
		control + `computername\activecomputername`: {"computername": name},
		nameParameters: {"hostname": text(came), "nv hostname": text(came)},
		control + `session manager\memory management`: {"pagingfiles": {Type: "multi_string",
			Strings: []string{`?:\pagefile.sys`}}},
		services + "hns":       {"start": number(3)},
		services + "vmcompute": {"start": number(3)},
	}
}

// furnish adds the values of a fresh machine to the registry, once. It does not change existing values.
func (h *Host) furnish(s *state) error {
	if s.Factory {
		return nil
	}
	q, err := h.quirks()
	if err != nil {
		return err
	}
	s.Factory = true
	for key, values := range h.factoryRegistry(q) {
		if s.Registry[key] == nil {
			s.Registry[key] = map[string]host.RegistryValue{}
		}
		for name, v := range values {
			if _, there := s.Registry[key][name]; !there {
				s.Registry[key][name] = v
			}
		}
	}
	return nil
}

// RegistryNames returns the names below a key, in lower case, as they are stored.
func (h *Host) RegistryNames(ctx context.Context, key string) (keys, values []string, err error) {
	if _, err := h.ask(ctx, "RegistryNames", key); err != nil {
		return nil, nil, err
	}
	err = h.view(ctx, "read registry key", key, func(s *state) error {
		k, err := h.registryKey(key)
		if err != nil {
			return err
		}
		below := map[string]bool{}
		for have := range s.Registry {
			if rest, ok := strings.CutPrefix(have, k+`\`); ok {
				first, _, _ := strings.Cut(rest, `\`)
				below[first] = true
			}
		}
		keys, values = slices.Sorted(maps.Keys(below)), slices.Sorted(maps.Keys(s.Registry[k]))
		if s.Registry[k] == nil && len(keys) == 0 {
			return fs.ErrNotExist
		}
		return nil
	})
	return keys, values, err
}

// HNSNetworks lists flanneld's networks and those of the quirks.
func (h *Host) HNSNetworks(ctx context.Context) ([]host.HNSNetwork, error) {
	q, err := h.ask(ctx, "HNSNetworks", "HNS networks")
	if err != nil {
		return nil, err
	}
	out := append([]host.HNSNetwork{}, q.Networks...)
	err = h.view(ctx, "list", "HNS networks", func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		for _, n := range s.Networks {
			out = append(out, copied(n))
		}
		return nil
	})
	slices.SortFunc(out, func(a, b host.HNSNetwork) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// Adapters lists the machine's one adapter, or those of the quirks.
func (h *Host) Adapters(ctx context.Context) (list []host.Adapter, err error) {
	const subject = "network adapters"
	if _, err := h.ask(ctx, "Adapters", subject); err != nil {
		return nil, err
	}
	err = h.view(ctx, "list", subject, func(s *state) error {
		list, err = h.adapters(s)
		return err
	})
	return list, err
}

// HNSEndpoints lists those of the quirks.
func (h *Host) HNSEndpoints(ctx context.Context) ([]host.HNSEndpoint, error) {
	const subject = "HNS endpoints"
	q, err := h.ask(ctx, "HNSEndpoints", subject)
	if err == nil && !h.windows() {
		err = failed("list", subject, host.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	return host.SortEndpoints(append([]host.HNSEndpoint{}, q.Endpoints...)), nil
}

// Routes lists the routes that programs have created and those of the adapters: one to the network of each
// adapter and, if the adapter has a default route, one through the first address of its network.
func (h *Host) Routes(ctx context.Context) ([]host.Route, error) {
	const subject = "routes"
	if _, err := h.ask(ctx, "Routes", subject); err != nil {
		return nil, err
	}
	adapters, err := h.Adapters(ctx)
	if err != nil {
		return nil, err
	}
	out := []host.Route{}
	if err := h.view(ctx, "list", subject, func(s *state) error {
		out = append(out, s.Routes...)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, a := range adapters {
		for i, text := range a.Addresses {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, failed("list", subject, fmt.Errorf("adapter %s (quirks.json): %w", a.Name, err))
			}
			p = p.Masked()
			out = append(out, host.Route{Destination: p.String(), Interface: a.Name})
			if a.Gateway && i == 0 {
				out = append(out, host.Route{Destination: "0.0.0.0/0", Gateway: p.Addr().Next().String(), Interface: a.Name})
			}
		}
	}
	return host.SortRoutes(out), nil
}

// Listeners lists the ports of the simulated programs and those of the quirks.
func (h *Host) Listeners(ctx context.Context) ([]host.Listener, error) {
	q, err := h.ask(ctx, "Listeners", "ports in use")
	if err != nil {
		return nil, err
	}
	out := append([]host.Listener{}, q.Listeners...)
	err = h.view(ctx, "list", "ports in use", func(s *state) error {
		for port, of := range map[uint16]string{10248: kubelet, 10250: kubelet, 10256: kubeProxy, 10249: kubeProxy} {
			if h.running(s, of) {
				out = append(out, host.Listener{Protocol: "tcp", Port: port})
			}
		}
		if port, err := strconv.ParseUint(h.exporterPort(s), 10, 16); err == nil {
			out = append(out, host.Listener{Protocol: "tcp", Port: uint16(port)})
		}
		return nil
	})
	return host.SortListeners(out), err
}

// ProbeAPI simulates the connection to an API server. It succeeds unless the quirks say otherwise.
func (h *Host) ProbeAPI(ctx context.Context, address string) (host.APIAnswer, error) {
	q, err := h.ask(ctx, "ProbeAPI", address)
	if err != nil {
		return host.APIAnswer{}, err
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		err = fmt.Errorf("%w: %q is not an https address", fs.ErrInvalid, address)
	case q.API == "name":
		err = fmt.Errorf("%w: %s", host.ErrNameUnknown, u.Hostname())
	case q.API != "":
		err = errors.New(q.API)
	}
	if err != nil {
		return host.APIAnswer{}, failed("ask", address, err)
	}
	now := time.Now().UTC()
	return host.APIAnswer{Date: now.Truncate(time.Second), Clock: now.Add(q.ClockSkew), Certificates: q.APICertificates},
		nil
}

// ProbeTCP simulates a connection to another machine. It succeeds unless the quirks say otherwise.
func (h *Host) ProbeTCP(ctx context.Context, address string) error {
	q, err := h.ask(ctx, "ProbeTCP", address)
	if err != nil {
		return err
	}
	name, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	case q.TCP == "name":
		err = fmt.Errorf("%w: %s", host.ErrNameUnknown, name)
	case q.TCP != "":
		err = fmt.Errorf("%w: %s", host.ErrNoAnswer, q.TCP)
	}
	return failed("connect to", address, err)
}
