package host

import (
	"context"
	"fmt"
	"io"
)

// Intercept returns a Host that calls before, with the name and subject of the call, ahead of every mutating
// call of h; an error of before is returned and the call is not made. It counts changes, and simulates a
// killed process in tests.
func Intercept(h Host, before func(op, subject string) error) Host {
	return Around(h, func(op, subject string, call func() error) error {
		if err := before(op, subject); err != nil {
			return err
		}
		return call()
	})
}

// Around returns a Host that passes every mutating call of h to around, with its name and subject; around
// makes the call or not, and its error is the error of the call.
func Around(h Host, around func(op, subject string, call func() error) error) Host {
	return &intercepted{Host: h, do: around}
}

type intercepted struct {
	Host
	do      func(op, subject string, call func() error) error
	adapter string // see OnInterface; "" = none
}

func (i *intercepted) Mkdir(ctx context.Context, path string, access Access) error {
	return i.do("make directory", path, func() error { return i.Host.Mkdir(ctx, path, access) })
}

func (i *intercepted) WriteFile(ctx context.Context, path string, r io.Reader, opt WriteOptions) error {
	return i.do("write file", path, func() error { return i.Host.WriteFile(ctx, path, r, opt) })
}

func (i *intercepted) CreateExclusive(ctx context.Context, path string, data []byte) error {
	return i.do("create file", path, func() error { return i.Host.CreateExclusive(ctx, path, data) })
}

func (i *intercepted) Rename(ctx context.Context, oldPath, newPath string) error {
	return i.do("rename to", newPath, func() error { return i.Host.Rename(ctx, oldPath, newPath) })
}

func (i *intercepted) Remove(ctx context.Context, path string) error {
	return i.do("remove", path, func() error { return i.Host.Remove(ctx, path) })
}

func (i *intercepted) Unmount(ctx context.Context, path string) error {
	return i.do("unmount", path, func() error { return i.Host.Unmount(ctx, path) })
}

func (i *intercepted) SetAccess(ctx context.Context, path string, access Access) error {
	return i.do("set access", path, func() error { return i.Host.SetAccess(ctx, path, access) })
}

func (i *intercepted) CreateService(ctx context.Context, c ServiceConfig) error {
	return i.do("create service", c.Name, func() error { return i.Host.CreateService(ctx, c) })
}

func (i *intercepted) UpdateService(ctx context.Context, c ServiceConfig) error {
	return i.do("update service", c.Name, func() error { return i.Host.UpdateService(ctx, c) })
}

func (i *intercepted) StartService(ctx context.Context, name string) error {
	return i.do("start service", name, func() error { return i.Host.StartService(ctx, name) })
}

func (i *intercepted) StopService(ctx context.Context, name string) error {
	return i.do("stop service", name, func() error { return i.Host.StopService(ctx, name) })
}

func (i *intercepted) DeleteService(ctx context.Context, name string) error {
	return i.do("delete service", name, func() error { return i.Host.DeleteService(ctx, name) })
}

func (i *intercepted) SetRegistryValue(ctx context.Context, key, name string, v RegistryValue) error {
	return i.do("set registry value", key+`\`+name, func() error { return i.Host.SetRegistryValue(ctx, key, name, v) })
}

func (i *intercepted) DeleteRegistryValue(ctx context.Context, key, name string) error {
	return i.do("delete registry value", key+`\`+name, func() error { return i.Host.DeleteRegistryValue(ctx, key, name) })
}

func (i *intercepted) DeleteRegistryKey(ctx context.Context, key string) error {
	return i.do("delete registry key", key, func() error { return i.Host.DeleteRegistryKey(ctx, key) })
}

func (i *intercepted) RunProgram(ctx context.Context, p Program) (exitCode int, err error) {
	err = i.do("run program", p.name(), func() (err error) {
		exitCode, err = i.Host.RunProgram(ctx, p)
		return err
	})
	return exitCode, err
}

func (i *intercepted) PullImage(ctx context.Context, cri, name string) error {
	return i.do("pull image", name, func() error { return i.Host.PullImage(ctx, cri, name) })
}

func (i *intercepted) RemovePod(ctx context.Context, cri, id string) error {
	return i.do("remove pod", id, func() error { return i.Host.RemovePod(ctx, cri, id) })
}

func (i *intercepted) EndProcesses(ctx context.Context, program string) error {
	return i.do("end processes of", program, func() error { return i.Host.EndProcesses(ctx, program) })
}

func (i *intercepted) SetMachineEnv(ctx context.Context, name, value string) error {
	return i.do("set environment", name, func() error { return i.Host.SetMachineEnv(ctx, name, value) })
}

func (i *intercepted) UnsetMachineEnv(ctx context.Context, name string) error {
	return i.do("unset environment", name, func() error { return i.Host.UnsetMachineEnv(ctx, name) })
}

func (i *intercepted) SetSysctl(ctx context.Context, name, value string) error {
	return i.do("set sysctl", name, func() error { return i.Host.SetSysctl(ctx, name, value) })
}

func (i *intercepted) LoadKernelModule(ctx context.Context, name string) error {
	return i.do("load kernel module", name, func() error { return i.Host.LoadKernelModule(ctx, name) })
}

func (i *intercepted) DeleteInterface(ctx context.Context, name string) error {
	return i.do("delete interface", name, func() error { return i.Host.DeleteInterface(ctx, name) })
}

func (i *intercepted) DeleteFilterChains(ctx context.Context, chains []FilterChain) error {
	return i.do("delete filter chains", fmt.Sprint(chains), func() error {
		return i.Host.DeleteFilterChains(ctx, chains)
	})
}

func (i *intercepted) DeleteFilterTables(ctx context.Context, tables []FilterTable) error {
	return i.do("delete filter tables", fmt.Sprint(tables), func() error {
		return i.Host.DeleteFilterTables(ctx, tables)
	})
}

func (i *intercepted) DeleteRoutes(ctx context.Context, routes []Route) error {
	return i.do("delete routes", fmt.Sprint(routes), func() error { return i.Host.DeleteRoutes(ctx, routes) })
}

func (i *intercepted) PutRoute(ctx context.Context, r Route) error {
	return i.do("add route", r.String(), func() error { return i.Host.PutRoute(ctx, r) })
}

func (i *intercepted) SetDynamicPorts(ctx context.Context, r PortRange) error {
	return i.do("set dynamic ports", r.String(), func() error { return i.Host.SetDynamicPorts(ctx, r) })
}

func (i *intercepted) ReservePorts(ctx context.Context, r PortRange) error {
	return i.do("reserve ports", r.String(), func() error { return i.Host.ReservePorts(ctx, r) })
}

func (i *intercepted) ReleasePorts(ctx context.Context, r PortRange) error {
	return i.do("release ports", r.String(), func() error { return i.Host.ReleasePorts(ctx, r) })
}

func (i *intercepted) TrustCA(ctx context.Context, ca []byte) error {
	return i.do("trust authority", "", func() error { return i.Host.TrustCA(ctx, ca) })
}

func (i *intercepted) DistrustCA(ctx context.Context, ca []byte) error {
	return i.do("distrust authority", "", func() error { return i.Host.DistrustCA(ctx, ca) })
}

func (i *intercepted) EnableFeature(ctx context.Context, name string) error {
	return i.do("enable feature", name, func() error { return i.Host.EnableFeature(ctx, name) })
}

func (i *intercepted) DisableFeature(ctx context.Context, name string) error {
	return i.do("disable feature", name, func() error { return i.Host.DisableFeature(ctx, name) })
}

func (i *intercepted) SetHostName(ctx context.Context, name string) error {
	return i.do("set host name", name, func() error { return i.Host.SetHostName(ctx, name) })
}

func (i *intercepted) NoteReboot(ctx context.Context, what string) error {
	return i.do("note a reboot for", what, func() error { return i.Host.NoteReboot(ctx, what) })
}

func (i *intercepted) Reboot(ctx context.Context) error {
	return i.do("reboot", "the machine", func() error { return i.Host.Reboot(ctx) })
}

func (i *intercepted) PutFirewallRule(ctx context.Context, r FirewallRule) error {
	return i.do("put firewall rule", r.Name, func() error { return i.Host.PutFirewallRule(ctx, r) })
}

func (i *intercepted) DeleteFirewallRule(ctx context.Context, name string) error {
	return i.do("delete firewall rule", name, func() error { return i.Host.DeleteFirewallRule(ctx, name) })
}

func (i *intercepted) CreateHNSNetwork(ctx context.Context, n HNSNetworkConfig) error {
	return i.do("create HNS network", n.Name, func() error { return i.Host.CreateHNSNetwork(ctx, n) })
}

func (i *intercepted) DeleteHNSNetwork(ctx context.Context, name string) error {
	return i.do("delete HNS network", name, func() error { return i.Host.DeleteHNSNetwork(ctx, name) })
}

func (i *intercepted) DeleteHNSEndpoint(ctx context.Context, id string) error {
	return i.do("delete HNS endpoint", id, func() error { return i.Host.DeleteHNSEndpoint(ctx, id) })
}
