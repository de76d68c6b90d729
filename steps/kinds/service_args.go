package kinds

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Service is a registered service. It is changed in place, and restarted when what
// it was last started from (command, environment, its program, watched files) has
// changed.
type Service struct {
	host.ServiceConfig
	// SensitiveEnvironment names variables of Environment whose values are not shown.
	SensitiveEnvironment []string          `json:"sensitive_environment,omitempty"`
	State                host.ServiceState `json:"state,omitempty" choices:"running,stopped"`
	Watch                []string          `json:"watch,omitempty" doc:"files whose change restarts the service"`
	// RestartIf and RestartOn restart a service that runs well and yet for something
	// that no longer exists: they are given by references to what the cluster says.
	RestartIf string   `json:"restart_if,omitempty"`
	RestartOn []string `json:"restart_on,omitempty" doc:"values whose change restarts the service"`
	FlagsFile string   `json:"flags_file,omitempty" path:"true"`
	// FlagsGone: kubeadm leaves its file as an older version of the program was to read it.
	FlagsGone []string `json:"flags_gone,omitempty"`
	Log       string   `json:"log,omitempty" doc:"its log file; the tail is shown when it ends by itself" path:"true"`
	// Parameters are written before the service starts.
	Parameters []ServiceParameter `json:"parameters,omitempty"`
	// Makes and HNSNetworks are what its program makes besides; what was there before
	// the service is not its own.
	Makes []string `json:"makes,omitempty" path:"true"`
	// Keeps are those of Makes that stay when the plan no longer has the service.
	Keeps       []string `json:"keeps,omitempty" lang:"-"`
	HNSNetworks []string `json:"hns_networks,omitempty"`
	// Renews: their gate would take those of the last start for those of this one.
	Renews []string `json:"renews,omitempty" path:"true"`
	// Pods: what a container runtime runs outlives it.
	Pods string `json:"pods,omitempty" doc:"pipe or socket where its program serves the CRI; leave ends its pods"`
	// Interfaces and those after it are the same in the kernel of Linux.
	Interfaces        []string `json:"interfaces,omitempty"`
	Chains            []string `json:"chains,omitempty"`
	FilterTables      []string `json:"filter_tables,omitempty"`
	Routes            []string `json:"routes,omitempty"`
	NetworkNamespaces []string `json:"network_namespaces,omitempty"`
}

func (s *Service) thing(string) steps.Thing {
	return steps.Thing{Key: ServiceKey(s.Name), Words: "the service " + s.Name}
}

func (s *Service) evidence() []steps.Evidence {
	out := []steps.Evidence{{Service: s.Name, SecretEnv: s.SensitiveEnvironment}, {Log: s.Log}, {CRI: s.Pods}}
	for _, n := range s.HNSNetworks {
		out = append(out, steps.Evidence{HNSNetwork: n})
	}
	return out
}

// claims are the keys of the service and of what its program makes.
func (s *Service) claims(*steps.Env) []record.Key {
	out := []record.Key{ServiceKey(s.Name)}
	for _, p := range s.Parameters {
		out = append(out, p.registry(s.Name).key())
	}
	for _, of := range []struct {
		prefix record.Prefix
		names  []string
	}{{record.ProgramData, s.Makes}, {record.HNSNetwork, s.HNSNetworks}, {record.Interface, s.Interfaces},
		{record.Chains, s.Chains}, {record.FilterTable, s.FilterTables}, {record.Routes, s.Routes},
		{record.Namespaces, s.NetworkNamespaces}} {
		for _, name := range of.names {
			out = append(out, of.prefix.Of(name))
		}
	}
	return out
}

func (s *Service) keeps() (out []record.Key) {
	for _, p := range s.Keeps {
		out = append(out, record.ProgramData.Of(p))
	}
	return out
}

func (s *Service) secrets(shown func(string) string) {
	for i, v := range s.Environment {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(s.SensitiveEnvironment, name) {
			s.Environment[i] = name + "=" + shown(value)
		}
	}
}

func (s *Service) review(w steps.Written) (out []steps.Remark) {
	if w.OS == "windows" && len(s.SensitiveEnvironment) > 0 && w.Has("sensitive_environment") {
		out = append(out, steps.Remark{Arg: "sensitive_environment", Warning: true,
			Summary: "users of the machine may read it",
			Detail: "Windows keeps the environment of a service in its registry key, which users of the machine may read. " +
				"nodejoin hides these values only in what it prints and keeps. Give the service the secret in a file with " +
				"access = \"private\" instead."})
	}
	if w.OS == "linux" && w.Has("hns_networks") {
		out = append(out, steps.Remark{Arg: "hns_networks",
			Detail: "The argument \"hns_networks\" is for Windows: Linux has no Host Networking Service. Remove it, or name " +
				"Windows nodes in the argument \"on\"."})
	}
	for _, name := range []string{"interfaces", "chains", "network_namespaces"} {
		if w.OS == "windows" && w.Has(name) {
			out = append(out, steps.Remark{Arg: name, Detail: fmt.Sprintf("The argument %q is for Linux: Windows has a Host "+
				"Networking Service, and the argument hns_networks. Remove it, or name Linux nodes in the argument \"on\".",
				name)})
		}
	}
	// A state that is computed may be another tomorrow.
	if s.State != host.ServiceStopped || !w.Constant("state") {
		return out
	}
	for _, a := range []struct{ name, why string }{
		{"watch", "a service that is to be stopped is never restarted"},
		{"log", "it is shown when the service ends by itself, and this one is to be stopped"},
	} {
		if w.Has(a.name) {
			out = append(out, steps.Remark{Arg: a.name,
				Detail: fmt.Sprintf("With state = \"stopped\" the argument %q has no effect: %s. Remove one of the two.", a.name,
					a.why)})
		}
	}
	return out
}

// Running reports whether the service is to run.
func (s *Service) Running() bool { return s.State != host.ServiceStopped }

func (s *Service) validate() error {
	switch {
	case s.Name == "":
		return steps.Invalid("a service needs a name")
	case len(s.Command) == 0 || s.Command[0] == "":
		return steps.Invalid("service %s needs a command", s.Name)
	case s.State != "" && s.State != host.ServiceRunning && s.State != host.ServiceStopped:
		return steps.Invalid("service %s: state %q is neither running nor stopped", s.Name, s.State)
	case slices.ContainsFunc(s.Routes, func(n string) bool { _, err := netip.ParsePrefix(n); return err != nil }):
		return steps.Invalid("service %s: routes %q are not all networks, such as \"10.244.0.0/16\"", s.Name, s.Routes)
	case s.Start == host.StartDisabled && s.Running():
		return steps.Invalid("service %s is disabled and so cannot run; set state to stopped or another start", s.Name)
	case !slices.Contains([]host.StartType{"", host.StartAuto, host.StartDelayed, host.StartManual, host.StartDisabled},
		s.Start):
		return steps.Invalid("service %s: start %q is not one of auto, delayed, manual, disabled", s.Name, s.Start)
	}
	for _, a := range s.Recovery {
		if a.Action != "restart" && a.Action != "none" {
			return steps.Invalid("service %s: recovery action %q is neither restart nor none", s.Name, a.Action)
		}
	}
	for _, v := range s.Environment {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return steps.Invalid("service %s: environment %q is not NAME=value", s.Name, v)
		}
	}
	return nil
}

// normal is a configuration with defaults filled in and sets sorted.
func normal(c host.ServiceConfig) host.ServiceConfig {
	c.DisplayName = cmp.Or(c.DisplayName, c.Name)
	if c.Start == "" {
		c.Start = host.StartAuto
	}
	c.DependsOn = slices.Compact(slices.Sorted(slices.Values(c.DependsOn)))
	c.Environment = slices.Compact(slices.Sorted(slices.Values(c.Environment)))
	c.Recovery = slices.Clone(c.Recovery)
	for i := range c.Recovery {
		c.Recovery[i].Delay = c.Recovery[i].Delay.Truncate(time.Millisecond)
	}
	if len(c.Recovery) == 0 {
		c.RecoveryReset = 0
	}
	return c
}

// want is the configuration to register: normal, with the mark.
func (s *Service) want() host.ServiceConfig {
	c := normal(s.ServiceConfig)
	if !strings.HasSuffix(c.Description, steps.OwnershipMark) {
		c.Description = strings.TrimSpace(c.Description + " " + steps.OwnershipMark)
	}
	return c
}

// Watched are the files that the service is started from: its program and Watch.
func (s *Service) Watched() []string {
	return slices.Compact(slices.Sorted(slices.Values(append([]string{s.Command[0]}, s.Watch...))))
}

// ServiceParameter is a value below the key Parameters of a Windows service, where
// programs that run others as a service (nssm) read what to do. It goes with the
// service.
type ServiceParameter struct {
	Name    string   `json:"name"` // `AppStdout`, `AppExit\` for the default value of a key below
	Type    string   `json:"type"` // as of a registry value, without binary
	String  string   `json:"string,omitempty"`
	Strings []string `json:"strings,omitempty"`
	Number  uint64   `json:"number,omitempty"`
}

// registry is the parameter as a registry value of its own.
func (p ServiceParameter) registry(service string) *Registry {
	key := host.CurrentControlSet + `Services\` + service + `\Parameters`
	name := p.Name
	if i := strings.LastIndex(name, `\`); i >= 0 {
		key, name = key+`\`+name[:i], name[i+1:]
	}
	return &Registry{Key: key, Name: name,
		RegistryValue: host.RegistryValue{Type: p.Type, String: p.String, Strings: p.Strings, Number: p.Number}}
}

// startedFrom is the configuration with everything that a start depends on, for a
// fingerprint.
func (s *Service) startedFrom() host.ServiceConfig {
	c := s.want()
	c.Command = slices.Clone(c.Command)
	for _, p := range s.Parameters {
		c.Command = append(c.Command, "parameter "+p.Name+" "+registryText(p.registry(s.Name).RegistryValue))
	}
	return c
}
