package hosttest

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// registryNames: the names directly below a key.
func (s *suite) registryNames() {
	key := s.RegistryKey
	if key == "" {
		key = `HKLM\SOFTWARE\nodejoin-hosttest`
	}
	_, _, err := s.Host.RegistryNames(s.ctx, key+`\never`)
	if !s.Registry {
		s.is("read", err, host.ErrUnsupported)
		return
	}
	s.is("absent key", err, fs.ErrNotExist)
	for _, v := range []string{`\names|b`, `\names|a`, `\names\two|v`, `\names\one\deep|v`} {
		below, name, _ := strings.Cut(v, "|")
		s.must(s.Host.SetRegistryValue(s.ctx, key+below, name, host.RegistryValue{Type: "dword", Number: 1}))
		s.Cleanup(func() { _ = s.Host.DeleteRegistryValue(context.WithoutCancel(s.ctx), key+below, name) })
	}
	keys, values, err := s.Host.RegistryNames(s.ctx, key+`\names`)
	s.must(err)
	s.equal("keys", keys, []string{"one", "two"})
	s.equal("values", values, []string{"a", "b"})
	_, _, err = s.Host.RegistryNames(s.ctx, `HKXX\a`)
	s.isNoAnswer("no such root", err)
}

// adapters: the machine's address is the address of an adapter with a default route.
func (s *suite) adapters() {
	list, err := s.Host.Adapters(s.ctx)
	s.must(err)
	f, err := s.Host.Facts(s.ctx)
	s.must(err)
	if f.Memory < 16<<20 || f.CPUs < 1 {
		s.Errorf("%d bytes of memory, %d processors", f.Memory, f.CPUs)
	}
	found := f.ManagementIP == ""
	for _, a := range list {
		if a.Name == "" || len(a.Addresses) == 0 {
			s.Errorf("adapter without a name or address: %+v", a)
		}
		for _, text := range a.Addresses {
			p, err := netip.ParsePrefix(text)
			s.must(err)
			if p.Addr().IsLoopback() {
				s.Errorf("the loopback is an adapter: %+v", a)
			}
			found = found || p.Addr().String() == f.ManagementIP && a.Gateway
		}
	}
	if !found {
		s.Errorf("no adapter with a default route has the address %s: %+v", f.ManagementIP, list)
	}
	if !slices.IsSortedFunc(list, func(a, b host.Adapter) int { return strings.Compare(a.Name, b.Name) }) {
		s.Errorf("not sorted: %+v", list)
	}
}

// routes: there is a default route through each adapter that has one.
func (s *suite) routes() {
	list, err := s.Host.Routes(s.ctx)
	s.must(err)
	adapters, err := s.Host.Adapters(s.ctx)
	s.must(err)
	for _, a := range adapters {
		found := slices.ContainsFunc(list, func(r host.Route) bool {
			return r.Destination == "0.0.0.0/0" && r.Interface == a.Name
		})
		if found != a.Gateway {
			s.Errorf("a default route is %t through %+v: %+v", found, a, list)
		}
	}
	for _, r := range list {
		if p, err := netip.ParsePrefix(r.Destination); err != nil || p != p.Masked() {
			s.Errorf("no destination: %+v", r)
		}
		if _, err := netip.ParseAddr(r.Gateway); r.Gateway != "" && err != nil {
			s.Errorf("no gateway: %+v", r)
		}
	}
	s.equal("sorted", host.SortRoutes(slices.Clone(list)), list)
}

// serverAddress returns the address of the server of a URL.
func serverAddress(s *suite, url string) netip.AddrPort {
	s.Helper()
	u, err := netip.ParseAddrPort(strings.SplitN(strings.TrimPrefix(url, "http://"), "/", 2)[0])
	s.must(err)
	return u
}

// listeners: the port of a server on the machine is in the list while the server runs.
func (s *suite) listeners() {
	if _, err := s.Host.Listeners(s.ctx); err != nil {
		s.Fatal(err)
	}
	if s.HTTP == nil {
		s.Skip("no server to look for")
	}
	url, _, stop := s.HTTP(s.T)
	u := serverAddress(s, url)
	held := func() bool {
		list, err := s.Host.Listeners(s.ctx)
		s.must(err)
		return slices.ContainsFunc(list, func(l host.Listener) bool { return l.Protocol == "tcp" && l.Port == u.Port() })
	}
	if !held() {
		s.Error("port " + strconv.Itoa(int(u.Port())) + " is held, and not listed")
	}
	s.must(s.Host.ProbeTCP(s.ctx, u.String()))
	stop()
	if held() {
		s.Error("port " + strconv.Itoa(int(u.Port())) + " is listed after its program has ended")
	}
}

func (s *suite) hnsNetworks() {
	list, err := s.Host.HNSNetworks(s.ctx)
	endpoints, noEndpoints := s.Host.HNSEndpoints(s.ctx)
	balancers, noBalancers := s.Host.HNSLoadBalancers(s.ctx)
	if !s.Registry || err != nil { // or without the feature Containers
		s.is("list", err, host.ErrUnsupported)
		s.is("list endpoints", noEndpoints, host.ErrUnsupported)
		s.is("list load balancers", noBalancers, host.ErrUnsupported)
		return
	}
	s.must(noEndpoints)
	s.must(noBalancers)
	for _, b := range balancers {
		if b.ID == "" || len(b.Ports) == 0 {
			s.Errorf("load balancer of nothing: %+v", b)
		}
	}
	for _, e := range endpoints {
		if !slices.ContainsFunc(list, func(n host.HNSNetwork) bool { return strings.EqualFold(n.ID, e.Network) }) {
			s.Errorf("endpoint of no network: %+v", e)
		}
	}
	for _, n := range list {
		if have, err := s.Host.HNSNetwork(s.ctx, n.Name); err != nil || have.Type == "" {
			s.Errorf("network %s: %+v, %v", n.Name, have, err)
		}
	}
}

// events: the newest entries of the event log come first, and no others than those that were asked for.
func (s *suite) events() {
	const manager = "Service Control Manager"
	for _, bad := range [][]string{nil, {""}, {"a' or 'b"}} {
		_, err := s.Host.Events(s.ctx, "System", bad, 1)
		s.is("bad sources", err, fs.ErrInvalid)
	}
	_, err := s.Host.Events(s.ctx, "System", []string{manager}, host.MaxEvents+1)
	s.is("too many", err, fs.ErrInvalid)
	list, err := s.Host.Events(s.ctx, "System", []string{manager, "nodejoin-test-absent"}, 3)
	if !s.Registry || errors.Is(err, host.ErrUnsupported) { // Wine has none
		s.is("list", err, host.ErrUnsupported)
		return
	}
	s.must(err)
	if len(list) > 3 {
		s.Errorf("%d entries, 3 at most were asked for", len(list))
	}
	for i, e := range list {
		if e.Source != manager || e.Text == "" || e.Level == "" || e.Time.IsZero() {
			s.Errorf("an entry is incomplete or was not asked for: %+v", e)
		}
		if i > 0 && e.Time.After(list[i-1].Time) {
			s.Errorf("%s comes after %s", e.Time, list[i-1].Time)
		}
	}
	list, err = s.Host.Events(s.ctx, "Application", []string{"nodejoin-test-absent"}, 3)
	s.must(err)
	s.equal("entries of a source that there is not", len(list), 0)
	_, err = s.Host.Events(s.ctx, "nodejoin-test-absent", []string{manager}, 3)
	s.is("absent channel", err, fs.ErrNotExist)
}

// images: a pipe that does not exist is absence, not a runtime without images.
func (s *suite) images() {
	if s.AbsentPipe == "" {
		s.Skip("no pipe that does not exist")
	}
	_, err := s.Host.Images(s.ctx, s.AbsentPipe)
	s.is("images of nothing", err, fs.ErrNotExist)
	_, err = s.Host.Image(s.ctx, s.AbsentPipe, "registry.example/app:1")
	s.is("an image of nothing", err, fs.ErrNotExist)
	s.is("a pull by nothing", s.Host.PullImage(s.ctx, s.AbsentPipe, "registry.example/app:1"), fs.ErrNotExist)
}

// probeAPI: a server with an unknown certificate answers with its clock.
func (s *suite) probeAPI() {
	for _, url := range []string{"http://127.0.0.1/", "not a url"} {
		if _, err := s.Host.ProbeAPI(s.ctx, url); err == nil {
			s.Errorf("%s was asked", url)
		}
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	answer, err := s.Host.ProbeAPI(s.ctx, server.URL)
	s.must(err)
	if answer.Date.IsZero() || answer.Clock.Sub(answer.Date).Abs() > time.Minute {
		s.Errorf("clock of the server %s, of the machine %s", answer.Date, answer.Clock)
	}
}
