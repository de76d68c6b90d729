package hosttest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

func (s *suite) registry() {
	key := s.RegistryKey
	if key == "" {
		key = `HKLM\SOFTWARE\nodejoin-hosttest`
	}
	_, err := s.Host.RegistryValue(s.ctx, key, "v")
	if !s.Registry {
		s.is("read", err, host.ErrUnsupported)
		s.is("set", s.Host.SetRegistryValue(s.ctx, key, "v", host.RegistryValue{Type: "string"}), host.ErrUnsupported)
		s.is("delete", s.Host.DeleteRegistryValue(s.ctx, key, "v"), host.ErrUnsupported)
		s.is("delete key", s.Host.DeleteRegistryKey(s.ctx, key), host.ErrUnsupported)
		return
	}
	s.is("absent value", err, fs.ErrNotExist)
	for _, want := range []host.RegistryValue{
		{Type: "string", String: "text"}, {Type: "string"}, {Type: "string", String: "ünï \"q\" \\"},
		{Type: "expand_string", String: `%SystemRoot%\x`},
		{Type: "multi_string", Strings: []string{"b", "a"}},
		{Type: "dword", Number: 1<<32 - 1}, {Type: "dword"}, {Type: "qword", Number: 1<<64 - 1},
		{Type: "binary", Binary: []byte{0, 255, 1}},
	} {
		s.must(s.Host.SetRegistryValue(s.ctx, key+`\deep`, "v", want))
		have, err := s.Host.RegistryValue(s.ctx, key+`\deep`, "v")
		s.must(err)
		s.equal(want.Type, have, want)
	}
	s.isNoAnswer("dword that is too large",
		s.Host.SetRegistryValue(s.ctx, key+`\deep`, "v", host.RegistryValue{Type: "dword", Number: 1 << 32}))
	s.isNoAnswer("unknown type", s.Host.SetRegistryValue(s.ctx, key+`\deep`, "v", host.RegistryValue{Type: "text"}))
	_, err = s.Host.RegistryValue(s.ctx, key+`\deep`, "other")
	s.is("other value", err, fs.ErrNotExist)
	for range 2 {
		s.must(s.Host.DeleteRegistryValue(s.ctx, key+`\deep`, "v"))
	}
	_, err = s.Host.RegistryValue(s.ctx, key+`\deep`, "v")
	s.is("deleted value", err, fs.ErrNotExist)
	s.must(s.Host.DeleteRegistryValue(s.ctx, key+`\never`, "v"))
	// A key stays when its values are gone, until it is deleted itself. One that is not empty is not deleted.
	s.must(s.Host.SetRegistryValue(s.ctx, key+`\deep\er`, "v", host.RegistryValue{Type: "string"}))
	s.is("key above another", s.Host.DeleteRegistryKey(s.ctx, key+`\deep`), host.ErrBusy)
	s.is("key with a value", s.Host.DeleteRegistryKey(s.ctx, key+`\deep\er`), host.ErrBusy)
	s.must(s.Host.DeleteRegistryValue(s.ctx, key+`\deep\er`, "v"))
	if keys, values, err := s.Host.RegistryNames(s.ctx, key+`\deep\er`); err != nil || len(keys)+len(values) > 0 {
		s.Errorf("a key without values: %q, %q, %v", keys, values, err)
	}
	for _, k := range []string{key + `\deep\er`, key + `\deep`, key + `\deep`} {
		s.must(s.Host.DeleteRegistryKey(s.ctx, k))
		_, _, err = s.Host.RegistryNames(s.ctx, k)
		s.is("deleted key", err, fs.ErrNotExist)
	}
	_, err = s.Host.RegistryValue(s.ctx, `HKXX\a`, "v")
	s.isNoAnswer("no such root", err)
}

func (s *suite) environment() {
	const name, other = "NODEJOIN_HOSTTEST", "NODEJOIN_HOSTTEST_2"
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), limit)
		defer cancel()
		if err := errors.Join(s.Host.UnsetMachineEnv(ctx, name), s.Host.UnsetMachineEnv(ctx, other)); err != nil {
			s.Error(err)
		}
	})
	_, err := s.Host.MachineEnv(s.ctx, name)
	s.is("absent variable", err, fs.ErrNotExist)
	s.must(s.Host.SetMachineEnv(s.ctx, other, "other"))
	for _, want := range []string{"plain", "two words", ` spaces around `, `%SystemRoot%\x`, "a=b", `"quoted"`, "a#b",
		"$HOME", "plain"} {
		s.must(s.Host.SetMachineEnv(s.ctx, name, want))
		have, err := s.Host.MachineEnv(s.ctx, name)
		s.must(err)
		s.equal("variable", have, want)
	}
	s.isNoAnswer("a name with =", s.Host.SetMachineEnv(s.ctx, "A=B", "x"))
	s.isNoAnswer("no name", s.Host.SetMachineEnv(s.ctx, "", "x"))
	for range 2 {
		s.must(s.Host.UnsetMachineEnv(s.ctx, name))
	}
	_, err = s.Host.MachineEnv(s.ctx, name)
	s.is("removed variable", err, fs.ErrNotExist)
	have, err := s.Host.MachineEnv(s.ctx, other)
	s.must(err)
	s.equal("another variable", have, "other")
}

func (s *suite) firewall() {
	want := host.FirewallRule{
		Name: "nodejoin-hosttest", DisplayName: "a test", Description: "made by a test",
		Direction: "in", Action: "allow", Protocol: "tcp", Ports: "10250", Enabled: true,
	}
	_, err := s.Host.FirewallRule(s.ctx, want.Name)
	if !s.Firewall {
		s.is("read", err, host.ErrUnsupported)
		s.is("put", s.Host.PutFirewallRule(s.ctx, want), host.ErrUnsupported)
		s.is("delete", s.Host.DeleteFirewallRule(s.ctx, want.Name), host.ErrUnsupported)
		return
	}
	s.is("absent rule", err, fs.ErrNotExist)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), limit)
		defer cancel()
		if err := s.Host.DeleteFirewallRule(ctx, want.Name); err != nil {
			s.Error(err)
		}
	})
	for _, change := range []func(){
		func() {},
		func() { want.Ports, want.Protocol, want.Direction = "30000-32767", "udp", "out" },
		func() { want.Remote = "10.0.0.0/8,192.0.2.1" },
		func() {
			want.Remote, want.Ports, want.Program, want.Action, want.Enabled = "", "", `C:\k\kubelet.exe`, "block", false
		},
		func() {
			want.Limits = host.FirewallLimits{Profiles: "domain,private", Service: "kubelet", RemotePorts: "1024-65535"}
		},
	} {
		change()
		s.must(s.Host.PutFirewallRule(s.ctx, want))
		have, err := s.Host.FirewallRule(s.ctx, want.Name)
		s.must(err)
		s.equal("rule", have, want)
	}
	bad := want
	bad.Direction = "sideways"
	s.isNoAnswer("a direction that does not exist", s.Host.PutFirewallRule(s.ctx, bad))
	for range 2 {
		s.must(s.Host.DeleteFirewallRule(s.ctx, want.Name))
	}
	_, err = s.Host.FirewallRule(s.ctx, want.Name)
	s.is("deleted rule", err, fs.ErrNotExist)
}

func (s *suite) kernel() {
	if s.Sysctl == "" {
		_, err := s.Host.Sysctl(s.ctx, "net.ipv4.ip_forward")
		s.is("read sysctl", err, host.ErrUnsupported)
		s.is("set sysctl", s.Host.SetSysctl(s.ctx, "net.ipv4.ip_forward", "1"), host.ErrUnsupported)
		_, err = s.Host.KernelModule(s.ctx, "overlay")
		s.is("module", err, host.ErrUnsupported)
		s.is("load module", s.Host.LoadKernelModule(s.ctx, "overlay"), host.ErrUnsupported)
		_, err = s.Host.Interfaces(s.ctx)
		s.is("interfaces", err, host.ErrUnsupported)
		s.is("delete interface", s.Host.DeleteInterface(s.ctx, "njt-none"), host.ErrUnsupported)
		_, err = s.Host.FilterChains(s.ctx)
		s.is("chains", err, host.ErrUnsupported)
		s.is("delete chains", s.Host.DeleteFilterChains(s.ctx, nil), host.ErrUnsupported)
		_, err = s.Host.FilterTables(s.ctx)
		s.is("tables", err, host.ErrUnsupported)
		s.is("delete tables", s.Host.DeleteFilterTables(s.ctx, nil), host.ErrUnsupported)
		s.is("delete routes", s.Host.DeleteRoutes(s.ctx, nil), host.ErrUnsupported)
		s.is("route over no interface", s.Host.PutRoute(s.ctx,
			host.Route{Destination: "203.0.113.7/32", Interface: "njt-none"}), fs.ErrNotExist)
		return
	}
	links, err := s.Host.Interfaces(s.ctx)
	if err != nil || !slices.Contains(links, "lo") || !slices.IsSorted(links) {
		s.Errorf("interfaces: %v, %v", links, err)
	}
	s.must(s.Host.DeleteInterface(s.ctx, "njt-none"))
	// Only an administrator may do this, if iptables is installed.
	if _, err := s.Host.FilterChains(s.ctx); err == nil {
		s.must(s.Host.DeleteFilterChains(s.ctx, []host.FilterChain{{Family: "ipv4", Table: "nat", Name: "NJT-NONE"}}))
	}
	if _, err := s.Host.FilterTables(s.ctx); err == nil { // likewise for nft
		s.must(s.Host.DeleteFilterTables(s.ctx, []host.FilterTable{{Family: "ip", Name: "njt-none"}}))
	}
	s.is("add route", s.Host.PutRoute(s.ctx, host.Route{Destination: "203.0.113.7/32"}), host.ErrUnsupported)
	s.must(s.Host.DeleteRoutes(s.ctx,
		[]host.Route{{Destination: "203.0.113.0/24", Gateway: "192.0.2.1", Interface: "njt-none"}}))
	have, err := s.Host.Sysctl(s.ctx, s.Sysctl)
	s.must(err)
	if have == "" || have != strings.Join(strings.Fields(have), " ") {
		s.Errorf("%s = %q", s.Sysctl, have)
	}
	s.must(s.Host.SetSysctl(s.ctx, s.Sysctl, have))
	again, err := s.Host.Sysctl(s.ctx, s.Sysctl)
	s.must(err)
	s.equal("value that was written again", again, have)
	_, err = s.Host.Sysctl(s.ctx, "net.ipv4.nodejoin_no_such")
	s.is("no such parameter", err, fs.ErrNotExist)
	s.is("set no such parameter", s.Host.SetSysctl(s.ctx, "net.ipv4.nodejoin_no_such", "1"), fs.ErrNotExist)
	for _, m := range s.Modules {
		s.must(s.Host.LoadKernelModule(s.ctx, m))
		how, err := s.Host.KernelModule(s.ctx, m)
		if err != nil || how != host.ModuleLoaded && how != host.ModuleBuiltIn {
			s.Errorf("module %s is %q, %v", m, how, err)
		}
	}
	_, err = s.Host.KernelModule(s.ctx, "nodejoin_no_such")
	s.is("no such module", err, fs.ErrNotExist)
	s.isNoAnswer("load no such module", s.Host.LoadKernelModule(s.ctx, "nodejoin_no_such"))
	_, err = s.Host.KernelModule(s.ctx, "../x")
	s.isNoAnswer("a module with a slash", err)
}

func (s *suite) probeHTTP() {
	for _, url := range []string{"http://198.51.100.1/", "https://127.0.0.1/", "not a url"} {
		if _, err := s.Host.ProbeHTTP(s.ctx, url); err == nil {
			s.Errorf("%s was asked", url)
		}
	}
	if s.HTTP == nil {
		s.Skip("no server to ask")
	}
	url, status, stop := s.HTTP(s.T)
	have, err := s.Host.ProbeHTTP(s.ctx, url)
	if err != nil || have != status {
		s.Errorf("status %d, %v; want %d", have, err, status)
	}
	stop()
	if have, err := s.Host.ProbeHTTP(s.ctx, url); err == nil {
		s.Errorf("a server that is gone answered %d", have)
	}
}

func (s *suite) probePipe() {
	if s.AbsentPipe != "" {
		s.is("absent pipe", s.Host.ProbePipe(s.ctx, s.AbsentPipe, ""), fs.ErrNotExist)
		s.is("absent pipe, with a call", s.Host.ProbePipe(s.ctx, s.AbsentPipe, "/runtime.v1.RuntimeService/Version"),
			fs.ErrNotExist)
	}
	if s.Pipe == nil {
		s.Skip("no pipe to connect to")
	}
	address, stop := s.Pipe(s.T)
	s.must(s.Host.ProbePipe(s.ctx, address, ""))
	if err := s.Host.ProbePipe(s.ctx, address, "/nodejoin.hosttest/NoSuchMethod"); err == nil {
		s.Error("a call that nobody serves succeeded")
	}
	stop()
	if err := s.Host.ProbePipe(s.ctx, address, ""); err == nil {
		s.Error("a pipe that is gone was connected to")
	}
}

// cancelled: a call whose context has ended does nothing and returns an error that says so.
func (s *suite) cancelled() {
	path := s.path("f")
	s.put(path, "kept")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	h := s.Host
	c := host.ServiceConfig{Name: "njt-cancelled", Command: []string{path}, Start: host.StartManual}
	ignore := func(_ any, err error) error { return err }
	ignore3 := func(_, _ any, err error) error { return err }
	for op, err := range map[string]error{
		"facts":       ignore(h.Facts(ctx)),
		"stat":        ignore(h.Stat(ctx, path)),
		"open":        ignore(h.Open(ctx, path)),
		"list":        ignore(h.List(ctx, s.Dir)),
		"free":        ignore(h.FreeBytes(ctx, path)),
		"service":     ignore(h.Service(ctx, c.Name)),
		"dependents":  ignore(h.Dependents(ctx, c.Name)),
		"registry":    ignore(h.RegistryValue(ctx, `HKLM\SOFTWARE\x`, "v")),
		"environment": ignore(h.MachineEnv(ctx, "NODEJOIN_HOSTTEST")),
		"firewall":    ignore(h.FirewallRule(ctx, "x")),
		"sysctl":      ignore(h.Sysctl(ctx, "net.ipv4.ip_forward")),
		"module":      ignore(h.KernelModule(ctx, "overlay")),
		"dynamic":     ignore(h.DynamicPorts(ctx, "tcp")),
		"reserved":    ignore(h.PortsReserved(ctx, host.PortRange{Protocol: "tcp", First: 1, Last: 1})),
		"excluded":    ignore(h.PortExcluded(ctx, "tcp", 1)),
		"set dynamic": h.SetDynamicPorts(ctx, host.PortRange{Protocol: "tcp", First: 40000, Last: 50000}),
		"reserve":     h.ReservePorts(ctx, host.PortRange{Protocol: "tcp", First: 1, Last: 1}),
		"release":     h.ReleasePorts(ctx, host.PortRange{Protocol: "tcp", First: 1, Last: 1}),
		"trusted":     ignore(h.TrustedCA(ctx, nil)),
		"added":       ignore(h.AddedCA(ctx, nil)),
		"trust":       h.TrustCA(ctx, nil),
		"distrust":    h.DistrustCA(ctx, nil),
		"mounts":      ignore(h.Mounts(ctx, path)),
		"unmount":     h.Unmount(ctx, path),
		"feature":     ignore(h.Feature(ctx, "Containers")),
		"name":        ignore(h.HostName(ctx)),
		"set name":    h.SetHostName(ctx, "nodejoin-hosttest"),
		"noted":       ignore(h.RebootNoted(ctx)),
		"enable":      h.EnableFeature(ctx, "Containers"),
		"disable":     h.DisableFeature(ctx, "Containers"),
		"note reboot": h.NoteReboot(ctx, "x"),
		"reboot":      h.Reboot(ctx),
		"hns":         ignore(h.HNSNetwork(ctx, "x")),
		"names":       ignore(nil, ignore3(h.RegistryNames(ctx, `HKLM\SOFTWARE\x`))),
		"networks":    ignore(h.HNSNetworks(ctx)),
		"endpoints":   ignore(h.HNSEndpoints(ctx)),
		"balancers":   ignore(h.HNSLoadBalancers(ctx)),
		"adapters":    ignore(h.Adapters(ctx)),
		"routes":      ignore(h.Routes(ctx)),
		"listeners":   ignore(h.Listeners(ctx)),
		"api":         ignore(h.ProbeAPI(ctx, "https://127.0.0.1:1/")),
		"tcp":         h.ProbeTCP(ctx, "127.0.0.1:1"),
		"http":        ignore(h.ProbeHTTP(ctx, "http://127.0.0.1:1/")),
		"mkdir":       h.Mkdir(ctx, s.path("d"), host.AccessDefault),
		"write":       h.WriteFile(ctx, path, strings.NewReader("lost"), host.WriteOptions{}),
		"create":      h.CreateExclusive(ctx, s.path("new"), nil),
		"rename":      h.Rename(ctx, path, s.path("new")),
		"remove":      h.Remove(ctx, path),
		"access":      h.SetAccess(ctx, path, host.AccessPrivate),
		"create svc":  h.CreateService(ctx, c),
		"update svc":  h.UpdateService(ctx, c),
		"start":       h.StartService(ctx, c.Name),
		"stop":        h.StopService(ctx, c.Name),
		"delete svc":  h.DeleteService(ctx, c.Name),
		"run":         ignore(h.RunProgram(ctx, host.Program{Command: []string{path}, Log: s.path("new")})),
		"set reg":     h.SetRegistryValue(ctx, `HKLM\SOFTWARE\x`, "v", host.RegistryValue{Type: "string"}),
		"delete key":  h.DeleteRegistryKey(ctx, `HKLM\SOFTWARE\x`),
		"delete reg":  h.DeleteRegistryValue(ctx, `HKLM\SOFTWARE\x`, "v"),
		"set env":     h.SetMachineEnv(ctx, "NODEJOIN_HOSTTEST", "x"),
		"unset env":   h.UnsetMachineEnv(ctx, "NODEJOIN_HOSTTEST"),
		"set sysctl":  h.SetSysctl(ctx, "net.ipv4.ip_forward", "1"),
		"load module": h.LoadKernelModule(ctx, "overlay"),
		"interfaces":  ignore(h.Interfaces(ctx)),
		"delete link": h.DeleteInterface(ctx, "njt-none"),
		"chains":      ignore(h.FilterChains(ctx)),
		"drop chains": h.DeleteFilterChains(ctx, nil),
		"tables":      ignore(h.FilterTables(ctx)),
		"drop tables": h.DeleteFilterTables(ctx, nil),
		"drop routes": h.DeleteRoutes(ctx, nil),
		"add route":   h.PutRoute(ctx, host.Route{Destination: "203.0.113.7/32"}),
		"put rule": h.PutFirewallRule(ctx,
			host.FirewallRule{Name: "x", Direction: "in", Action: "allow", Protocol: "tcp"}),
		"create hns": h.CreateHNSNetwork(ctx,
			host.HNSNetworkConfig{Name: "x", Type: "L2Bridge", Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"}),
		"delete hns":  h.DeleteHNSNetwork(ctx, "x"),
		"delete end":  h.DeleteHNSEndpoint(ctx, "x"),
		"processes":   ignore(h.Processes(ctx, path)),
		"end":         h.EndProcesses(ctx, path),
		"delete rule": h.DeleteFirewallRule(ctx, "x"),
	} {
		s.is(op, err, context.Canceled)
	}
	s.content(path, "kept")
	s.hasAccess(path, host.AccessDefault, true)
	s.names(s.Dir, "f")
	_, err := h.Service(s.ctx, c.Name)
	s.is("service", err, fs.ErrNotExist)

	// A context that ends while bytes still arrive.
	ctx, cancel = context.WithCancel(s.ctx)
	defer cancel()
	s.is("write cut short", h.WriteFile(ctx, path, cancelling(cancel), host.WriteOptions{}), context.Canceled)
	s.content(path, "kept")
	s.names(s.Dir, "f")
}

// cancelling is an endless reader that cancels its own context.
type cancelling context.CancelFunc

func (c cancelling) Read(b []byte) (int, error) {
	c()
	return copy(b, "more"), nil
}
