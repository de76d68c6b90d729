package stepstest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
)

// Survey is a machine and the preflight step that checks it. It has no findings except those that a case provokes.
type Survey struct {
	T      *testing.T
	Config sandbox.Config
	Quirks sandbox.Quirks
	Args   preflight.Preflight
	Node   string
	then   []func(h host.Host) // once the machine is there
}

// NewSurvey is a Windows machine without findings.
func NewSurvey(t *testing.T) *Survey {
	return &Survey{T: t, Node: "win-1", Config: sandbox.Config{Path: t.TempDir(), Hostname: "win-1", IP: "192.0.2.10"},
		Args: preflight.Preflight{
			OS: "windows", Arch: "amd64", MinBuild: "10.0.17763", MinRevisions: map[string]int{"10.0.17763": 379},
			BadRevisions: map[string]string{"10.0.20348.2582": "it breaks HNS"},
			Path:         `C:\`, MinFree: "1MiB", APIServer: "https://api.example:6443", PodCIDR: "10.244.0.0/16",
			ServiceCIDR: "10.96.0.0/12",
			Services:    []string{"containerd", "kubelet"}, Ports: []string{"tcp/10250", "udp/4789"},
			HNSNetworks: []string{"flannel.4096"},
			Leftovers:   []string{`C:\run\flannel\subnet.env`},
		}}
}

// Linux makes it a Linux machine.
func (s *Survey) Linux() {
	s.Config.OS = "linux"
	s.Args = preflight.Preflight{OS: "linux", Path: "/", MinFree: "1MiB", Services: []string{"kubelet"}}
}

// Registry sets a value in the registry.
func (s *Survey) Registry(key, name string, v host.RegistryValue) {
	s.then = append(s.then, func(h host.Host) { Must(s.T, h.SetRegistryValue(s.T.Context(), key, name, v)) })
}

// Number sets a dword in the registry.
func (s *Survey) Number(key, name string, n uint64) {
	s.Registry(key, name, host.RegistryValue{Type: "dword", Number: n})
}

// Text sets a string in the registry.
func (s *Survey) Text(key, name, v string) {
	s.Registry(key, name, host.RegistryValue{Type: "string", String: v})
}

// Without deletes a value from the registry.
func (s *Survey) Without(key, name string) {
	s.then = append(s.then, func(h host.Host) { Must(s.T, h.DeleteRegistryValue(s.T.Context(), key, name)) })
}

// Dynamic makes the ports from first on the dynamic ones.
func (s *Survey) Dynamic(protocol string, first uint16) {
	s.then = append(s.then, func(h host.Host) {
		Must(s.T, h.SetDynamicPorts(s.T.Context(), host.PortRange{Protocol: protocol, First: first, Last: 65535}))
	})
}

// Env sets a variable of the machine's environment.
func (s *Survey) Env(name, v string) {
	s.then = append(s.then, func(h host.Host) { Must(s.T, h.SetMachineEnv(s.T.Context(), name, v)) })
}

// File writes a file.
func (s *Survey) File(path string) {
	s.then = append(s.then, func(h host.Host) { Put(s.T, h, path, "x") })
}

// Service registers a service by hand, or as nodejoin does.
func (s *Survey) Service(name string, ours bool) {
	s.then = append(s.then, func(h host.Host) {
		c := host.ServiceConfig{Name: name, Command: []string{`C:\x\` + name + ".exe"}, Start: host.StartManual}
		if ours {
			c.Description = "test " + steps.OwnershipMark
		}
		Put(s.T, h, c.Command[0], "program")
		Must(s.T, h.CreateService(s.T.Context(), c))
	})
}

// Running registers and starts a service.
func (s *Survey) Running(name string) {
	s.Service(name, false)
	s.then = append(s.then, func(h host.Host) { Must(s.T, h.StartService(s.T.Context(), name)) })
}

// Adapters replaces the network adapters.
func (s *Survey) Adapters(list ...host.Adapter) { s.Quirks.Adapters = list }

// Open opens the machine and changes it as the case says.
func (s *Survey) Open() host.Host {
	s.T.Helper()
	h, err := sandbox.Open(context.Background(), s.Config)
	Must(s.T, err)
	for _, f := range s.then {
		f(h)
	}
	raw, err := json.Marshal(s.Quirks)
	Must(s.T, err)
	Must(s.T, os.WriteFile(filepath.Join(s.Config.Path, ".sandbox", "quirks.json"), raw, 0o600))
	return h
}

// Findings runs the preflight step; refused is its error.
func (s *Survey) Findings() (list []steps.Finding, refused *steps.Error) {
	s.T.Helper()
	machine := host.OnInterface(s.Open(), s.Args.Interface)
	x := executor.NewExecutor(kinds.Catalog(), machine, Memory{}, func(event.Event) {})
	reply, err := x.Check(s.T.Context(),
		executor.Request{Node: s.Node, Steps: []steps.Spec{Spec("preflight", "p", &s.Args)}})
	Must(s.T, err)
	if reply.Mutations != 0 {
		s.T.Errorf("%d mutating calls", reply.Mutations)
	}
	return reply.Results[0].Change.Findings, reply.Results[0].Err
}

// Keys of the registry that preflight reads.
const (
	VersionKey = `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	Servicing  = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\`
	Manager    = `HKLM\SYSTEM\CurrentControlSet\Control\Session Manager`
	Names      = `HKLM\SYSTEM\CurrentControlSet\Control\ComputerName\`
	Services   = `HKLM\SYSTEM\CurrentControlSet\Services\`
)
