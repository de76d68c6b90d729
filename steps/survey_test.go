package steps_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

// survey is a machine and what is held against it: in good order but for what a
// case does to it.
type survey struct {
	t      *testing.T
	config sandbox.Config
	quirks sandbox.Quirks
	args   steps.Preflight
	node   string
	then   []func(h host.Host) // once the machine is there
}

func newSurvey(t *testing.T) *survey {
	return &survey{t: t, node: "win-1", config: sandbox.Config{Path: t.TempDir(), Hostname: "win-1", IP: "192.0.2.10"}, args: steps.Preflight{
		OS: "windows", Arch: "amd64", MinBuild: "10.0.17763", MinRevisions: map[string]int{"10.0.17763": 379}, BadRevisions: map[string]string{"10.0.20348.2582": "it breaks HNS"},
		Path: `C:\`, MinFree: "1MiB", APIServer: "https://api.example:6443", PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12",
		Services: []string{"containerd", "kubelet"}, Ports: []string{"tcp/10250", "udp/4789"}, HNSNetworks: []string{"flannel.4096"},
		Leftovers: []string{`C:\run\flannel\subnet.env`},
	}}
}

// linux makes it a machine of Linux.
func (s *survey) linux() {
	s.config.OS = "linux"
	s.args = steps.Preflight{OS: "linux", Path: "/", MinFree: "1MiB", Services: []string{"kubelet"}}
}

func (s *survey) registry(key, name string, v host.RegistryValue) {
	s.then = append(s.then, func(h host.Host) { must(s.t, h.SetRegistryValue(s.t.Context(), key, name, v)) })
}

func (s *survey) number(key, name string, n uint64) {
	s.registry(key, name, host.RegistryValue{Type: "dword", Number: n})
}

func (s *survey) text(key, name, v string) {
	s.registry(key, name, host.RegistryValue{Type: "string", String: v})
}

func (s *survey) without(key, name string) {
	s.then = append(s.then, func(h host.Host) { must(s.t, h.DeleteRegistryValue(s.t.Context(), key, name)) })
}

// dynamic has Windows give out the ports from first on.
func (s *survey) dynamic(protocol string, first uint16) {
	s.then = append(s.then, func(h host.Host) {
		must(s.t, h.SetDynamicPorts(s.t.Context(), host.PortRange{Protocol: protocol, First: first, Last: 65535}))
	})
}

func (s *survey) env(name, v string) {
	s.then = append(s.then, func(h host.Host) { must(s.t, h.SetMachineEnv(s.t.Context(), name, v)) })
}

func (s *survey) file(path string) {
	s.then = append(s.then, func(h host.Host) { put(s.t, h, path, "x") })
}

// service registers one by hand, or as nodejoin does.
func (s *survey) service(name string, ours bool) {
	s.then = append(s.then, func(h host.Host) {
		c := host.ServiceConfig{Name: name, Command: []string{`C:\x\` + name + ".exe"}, Start: host.StartManual}
		if ours {
			c.Description = "test " + steps.OwnershipMark
		}
		put(s.t, h, c.Command[0], "program")
		must(s.t, h.CreateService(s.t.Context(), c))
	})
}

func (s *survey) running(name string) {
	s.service(name, false)
	s.then = append(s.then, func(h host.Host) { must(s.t, h.StartService(s.t.Context(), name)) })
}

func (s *survey) adapters(list ...host.Adapter) { s.quirks.Adapters = list }

// open opens the machine and does to it what the case says.
func (s *survey) open() host.Host {
	s.t.Helper()
	h, err := sandbox.Open(s.config)
	must(s.t, err)
	for _, f := range s.then {
		f(h)
	}
	raw, err := json.Marshal(s.quirks)
	must(s.t, err)
	must(s.t, os.WriteFile(filepath.Join(s.config.Path, ".sandbox", "quirks.json"), raw, 0o600))
	return h
}

// findings looks at the machine.
func (s *survey) findings() (list []steps.Finding, refused *steps.Error) {
	s.t.Helper()
	x := steps.NewExecutor(steps.Kinds(), s.open(), memory{}, func(event.Event) {})
	reply, err := x.Check(s.t.Context(), steps.Request{Node: s.node, Steps: []steps.Spec{spec("preflight", "p", &s.args)}})
	must(s.t, err)
	if reply.Mutations != 0 {
		s.t.Errorf("%d mutating calls", reply.Mutations)
	}
	return reply.Results[0].Change.Findings, reply.Results[0].Err
}

const (
	versionKey = `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	servicing  = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\`
	manager    = `HKLM\SYSTEM\CurrentControlSet\Control\Session Manager`
	names      = `HKLM\SYSTEM\CurrentControlSet\Control\ComputerName\`
	services   = `HKLM\SYSTEM\CurrentControlSet\Services\`
)
