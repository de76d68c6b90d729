package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var serviceKind = steps.Kind{Name: "service", Place: steps.OnHost,
	Doc: "a registered service, its settings and its run state",
	Undo: map[record.Prefix]steps.Undo{
		record.Service: {Called: "service", New: undoService, Order: steps.UndoServices, State: readServiceState,
			Rollback: rollBackService,
			Early:    always, Now: serviceNow},
		record.ProgramData: {Called: "data of a program:", New: undoMade, Removes: removesProgramData,
			Snapshot: steps.SnapshotNew, IsNew: steps.NewPath,
			Holds: holdsPath},
		record.Interface: {Called: "network interface", New: undoInterface, Order: steps.UndoOfPrograms,
			Snapshot: steps.SnapshotNew},
		record.Chains: {Called: "packet filter chains", New: undoChains, Order: steps.UndoOfPrograms,
			Snapshot: steps.SnapshotNew},
		record.FilterTable: {Called: "packet filter table", New: undoFilterTable, Order: steps.UndoOfPrograms,
			Snapshot: steps.SnapshotNew},
		record.Routes: {Called: "routes", New: undoRoutes, Order: steps.UndoOfPrograms, Snapshot: steps.SnapshotNew},
		record.Namespaces: {Called: "network namespaces", New: undoNamespaces, Order: steps.UndoOfPrograms,
			Snapshot: steps.SnapshotNew,
			Removes:  removesNamespaces},
	},
	Args: map[string]string{
		"sensitive_environment": "names of variables of environment whose values are never shown",
		"state":                 "\"running\" (default) or \"stopped\"",
		"restart_if":            "a reason: while it is not empty, each run restarts a running service",
		"flags_file": "file with KUBELET_KUBEADM_ARGS, as kubeadm writes it; those of its flags that the " +
			"command lacks are appended",
		"flags_gone": "names of flags of flags_file that the program no longer has; they are left out",
		"parameters": "Windows: values below its key Parameters in the registry, { name, type, string, strings or number " +
			"}, " +
			"for a program such as nssm that reads them; a change restarts it",
		"makes":        "files and folders that its program makes; leave removes them with all that is in them",
		"hns_networks": "HNS networks that its program makes; leave removes them with their endpoints",
		"interfaces":   "Linux: network interfaces that its program makes; leave removes them",
		"chains": "Linux: prefixes of the names of packet filter chains that its program makes; leave removes them, " +
			"and rules that lead to them",
		"filter_tables": "Linux: nftables tables that its program makes, by name; leave removes them",
		"routes": "Linux: networks, \"10.244.0.0/16\", into parts of which its program makes routes over other machines; " +
			"leave removes these",
		"network_namespaces": "Linux: prefixes of the names of network namespaces that its program makes; leave removes " +
			"them",
	},
	New:   func() any { return &Service{} },
	Makes: steps.Makes((*Service).thing), Claims: steps.Claims((*Service).claims),
	Secrets:  steps.Secrets((*Service).secrets),
	Evidence: steps.Shows((*Service).evidence),
	Runs:     steps.Runs(func(s *Service) host.ServiceConfig { return s.ServiceConfig }),
	Review:   steps.Review((*Service).review),
	Render: steps.Renders(func(s *Service, _ steps.RenderFor) (steps.Rendering, error) {
		s.Environment = steps.ShowEnvironment(s.Environment, s.SensitiveEnvironment)
		return steps.Rendering{Service: s.Name}, nil
	})}

// always is Undo.Early of what goes before the steps run.
func always(record.Key) bool { return true }

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
	Makes       []string `json:"makes,omitempty" path:"true"`
	HNSNetworks []string `json:"hns_networks,omitempty"`
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
	out := []steps.Evidence{{Service: s.Name, SecretEnv: s.SensitiveEnvironment}, {Log: s.Log}}
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

func (s *Service) secrets(shown func(string) string) {
	for i, v := range s.Environment {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(s.SensitiveEnvironment, name) {
			s.Environment[i] = name + "=" + shown(value)
		}
	}
}

func (s *Service) review(w steps.Written) (out []steps.Remark) {
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

// configDiffs compares a registered configuration with the wanted one. The values
// of the variables that sensitive names are not shown.
func configDiffs(have, want host.ServiceConfig, sensitive []string) []steps.Diff {
	have = normal(have)
	var out []steps.Diff
	add := func(name, have, want string) {
		if have != want {
			out = append(out, steps.Diff{Name: name, Have: have, Want: want})
		}
	}
	if !slices.Equal(have.Command, want.Command) {
		out = append(out, steps.Diff{Name: "command", Have: strings.Join(have.Command, "\n"),
			Want: strings.Join(want.Command, "\n"), Text: true})
	}
	add("display_name", have.DisplayName, want.DisplayName)
	add("description", have.Description, want.Description)
	add("start", string(have.Start), string(want.Start))
	add("depends_on", strings.Join(have.DependsOn, ", "), strings.Join(want.DependsOn, ", "))
	if !slices.Equal(have.Environment, want.Environment) {
		shown := func(env []string) string { return strings.Join(steps.ShowEnvironment(env, sensitive), ", ") }
		d := steps.Diff{Name: "environment", Have: shown(have.Environment), Want: shown(want.Environment)}
		if d.Have == d.Want {
			d = steps.Diff{Name: "environment", Sensitive: true} // what differs is not shown
		}
		out = append(out, d)
	}
	add("recovery", recoveryText(have), recoveryText(want))
	return out
}

func recoveryText(c host.ServiceConfig) string {
	var parts []string
	for _, a := range c.Recovery {
		p := a.Action
		if a.Delay > 0 {
			p += " after " + a.Delay.String()
		}
		parts = append(parts, p)
	}
	if c.RecoveryReset > 0 {
		parts = append(parts, fmt.Sprintf("count reset after %d s", c.RecoveryReset))
	}
	return strings.Join(parts, ", ")
}

// diff compares a service with the wanted one; have is nil when it is not
// registered. stale says why a running service is to be restarted, "" if it is not.
func (s *Service) diff(have *host.Service, stale string) steps.Change {
	want, touch := s.want(), []steps.Touch{{Service: s.Name}}
	if have == nil {
		c := steps.Change{Action: steps.ActionCreate,
			Diffs: configDiffs(host.ServiceConfig{Name: s.Name, Start: want.Start}, want, s.SensitiveEnvironment)}
		if s.Running() {
			c.Touches = touch
		}
		return c
	}
	c := steps.Change{Diffs: configDiffs(have.ServiceConfig, want, s.SensitiveEnvironment)}
	if have.Altered != "" {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "registration", Have: have.Altered, Want: "as nodejoin makes it"})
	}
	if len(c.Diffs) > 0 {
		c.Action = steps.ActionUpdate
	}
	runs := have.State == host.ServiceRunning
	switch {
	case !s.Running() && have.State != host.ServiceStopped:
		c.Action, c.Touches = steps.ActionUpdate, touch
		c.Diffs = append(c.Diffs, steps.Diff{Name: "state", Have: string(have.State), Want: string(host.ServiceStopped)})
	case s.Running() && have.Restarting:
		c.Touches = touch
		if c.Action == steps.ActionNone {
			c.Action, c.Reason = steps.ActionRestart, fmt.Sprintf("it ends with code %d and is started again "+
				"and again", have.ExitCode)
		}
	case s.Running() && !runs:
		c.Touches = touch
		if c.Action == steps.ActionNone {
			c.Action, c.Reason = steps.ActionStart, "it is "+string(have.State)
		} else {
			c.Diffs = append(c.Diffs, steps.Diff{Name: "state", Have: string(have.State), Want: string(host.ServiceRunning)})
		}
	case s.Running() && stale != "":
		c.Touches = touch
		if c.Action == steps.ActionNone {
			c.Action, c.Reason = steps.ActionRestart, stale
		} else {
			c.Reason = "restarts: " + stale
		}
	}
	return c
}

// withoutNetworks adds the HNS networks that are removed while the service is stopped.
func withoutNetworks(c steps.Change, networks []string, service string) steps.Change {
	for _, n := range networks {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "hns_network", Have: n})
	}
	if len(networks) > 0 {
		c.Touches = []steps.Touch{{Service: service}}
		if c.Action == steps.ActionNone || c.Action == steps.ActionRestart {
			c.Action, c.Reason = steps.ActionUpdate, "restarts: it makes another network than before"
		}
	}
	return c
}

// Watched are the files that the service is started from: its program and Watch.
func (s *Service) Watched() []string {
	return slices.Compact(slices.Sorted(slices.Values(append([]string{s.Command[0]}, s.Watch...))))
}

// stale says why the service, if it runs, must be restarted.
func (s *Service) stale(ctx context.Context, r host.Reader, e *steps.Env, have host.Service) (string, error) {
	var changing []string
	for _, p := range s.Watched() {
		if _, ok := e.WillChange(steps.Touch{Path: p}); !ok {
			continue
		}
		if _, known := e.FutureDigest(p); !known {
			return p + " changes", nil
		}
		changing = append(changing, p)
	}
	if step, ok := e.WillChange(steps.Touch{Service: s.Name}); ok {
		return step + " stops it", nil
	}
	if have.Altered != "" {
		return have.Altered, nil
	}
	want := s.want()
	switch is := normal(have.ServiceConfig); {
	case !slices.Equal(is.Command, want.Command):
		return "its command changes", nil
	case !slices.Equal(is.Environment, want.Environment):
		return "its environment changes", nil
	}
	if why := s.outdated(e); why != "" {
		return why, nil
	}
	if len(changing) > 0 && e.StartedByOthers(have) {
		return strings.Join(changing, ", ") + " changes, and it was started by something else meanwhile", nil
	}
	recorded, ok := e.Record.Fingerprints[s.Name]
	if !ok {
		return "it is not known what it was started from", nil
	}
	fp, err := e.Fingerprint(ctx, r, s.startedFrom(), s.Watched())
	if err != nil || fp == recorded {
		return "", err
	}
	if len(changing) > 0 {
		return strings.Join(changing, ", ") + " changes", nil
	}
	return "changed since its last start: its command, environment or one of " + strings.Join(s.Watched(), ", "), nil
}

func (s *Service) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := errors.Join(s.validate(), s.validateParameters(e.Facts.OS)); err != nil {
		return steps.Change{}, err
	}
	s, err := s.withFlags(ctx, r)
	if err != nil {
		return steps.Change{}, err
	}
	have, err := r.Service(ctx, s.Name)
	if errors.Is(err, fs.ErrNotExist) {
		more, err := s.parameterDiffs(ctx, r, true)
		c := s.diff(nil, "")
		c.Diffs = append(c.Diffs, more...)
		return c, err
	}
	if err != nil {
		return steps.Change{}, err
	}
	if err := s.refuseForeign(have, e); err != nil {
		return steps.Change{}, err
	}
	more, err := s.parameterDiffs(ctx, r, false)
	if err != nil {
		return steps.Change{}, err
	}
	if e.Applied != nil && s.Running() && ended(have) {
		// This run started it, and saw it running.
		return steps.Change{}, exited(ctx, r, have, s.Log)
	}
	stale := ""
	if s.Running() && have.State == host.ServiceRunning {
		stale = "its parameters change"
		if len(more) == 0 {
			if stale, err = s.stale(ctx, r, e, have); err != nil {
				return steps.Change{}, err
			}
		}
	}
	former, err := s.formerNetworks(ctx, r, e)
	if err != nil {
		return steps.Change{}, err
	}
	c := withoutNetworks(s.diff(&have, stale), former, s.Name)
	if len(more) > 0 {
		c = withParameters(c, more)
	}
	if waiting := e.Record.Stopped[s.Name]; c.NoOp() && s.Running() && len(waiting) > 0 {
		return steps.Change{Action: steps.ActionStart,
			Reason: "it runs, but not what was stopped with it: " + strings.Join(waiting, ", ")}, nil
	}
	return c, nil
}

func (s *Service) refuseForeign(have host.Service, e *steps.Env) error {
	if steps.Ours(have, e.Record) {
		return nil
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "a service of this name exists",
		Detail: fmt.Sprintf("service %s (%s) was not registered by nodejoin", s.Name, strings.Join(have.Command, " ")),
		Remedy: steps.ForeignRemedy(s.Name)}
}

func (s *Service) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	// Not nil, so that the check that verifies knows that this run started it.
	done := steps.Outcome{Outputs: map[string]string{}}
	s, err := s.withFlags(ctx, h)
	if err != nil {
		return steps.Outcome{}, err
	}
	have, err := s.register(ctx, h, e)
	if err != nil {
		return steps.Outcome{}, err
	}
	if !s.Running() {
		if err := stopService(ctx, h, e, s.Name); err != nil {
			return steps.Outcome{}, err
		}
		delete(e.Record.Stopped, s.Name) // they cannot run without it
		return done, nil
	}
	if have.State == host.ServiceStarting || have.State == host.ServiceStopping {
		if have, err = awaitState(ctx, h, s.Name, host.ServiceRunning, host.ServiceStopped); err != nil {
			return steps.Outcome{}, err
		}
	}
	// Taken before the start: a file that changes meanwhile restarts the service next time.
	fp, err := e.Fingerprint(ctx, h, s.startedFrom(), s.Watched())
	if err != nil {
		return steps.Outcome{}, err
	}
	former, err := s.formerNetworks(ctx, h, e)
	if err != nil {
		return steps.Outcome{}, err
	}
	if have.State == host.ServiceRunning && e.Record.Fingerprints[s.Name] == fp && s.outdated(e) == "" &&
		len(former) == 0 {
		return done, startAgain(ctx, h, e, s.Name)
	}
	if err := stopService(ctx, h, e, s.Name); err != nil {
		return steps.Outcome{}, err
	}
	for _, n := range former {
		if err := h.DeleteHNSNetwork(ctx, n); err != nil {
			return steps.Outcome{}, err
		}
	}
	if err := startService(ctx, h, s.Name, s.Log); err != nil {
		return steps.Outcome{}, err
	}
	if err := s.noteStart(ctx, h, e, fp); err != nil {
		return steps.Outcome{}, err
	}
	return done, startAgain(ctx, h, e, s.Name)
}

// register makes the registration as wanted and gives the service as it is then.
func (s *Service) register(ctx context.Context, h host.Host, e *steps.Env) (host.Service, error) {
	want := s.want()
	have, err := h.Service(ctx, s.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := s.claim(ctx, h, e); err != nil {
			return have, err
		}
		if err := h.CreateService(ctx, want); err != nil {
			return have, err
		}
		return host.Service{ServiceConfig: want, State: host.ServiceStopped}, s.setParameters(ctx, h, e)
	case err != nil:
		return have, err
	}
	if err := s.refuseForeign(have, e); err != nil {
		return have, err
	}
	if err := s.claim(ctx, h, e); err != nil {
		return have, err
	}
	if have.Altered != "" {
		// What runs may have been started from what was altered: it is started again, also
		// by a later run.
		delete(e.Record.Fingerprints, s.Name)
		if err := e.Record.Save(ctx, h, e.Facts); err != nil {
			return have, err
		}
	}
	if have.Altered != "" || len(configDiffs(have.ServiceConfig, want, s.SensitiveEnvironment)) > 0 {
		if err := h.UpdateService(ctx, want); err != nil {
			return have, err
		}
	}
	return have, s.setParameters(ctx, h, e)
}

// claim notes the service and what its program is about to make. A file or folder
// that is there already is the program's only if nodejoin made it or the service ran
// before; else it stays where it is.
func (s *Service) claim(ctx context.Context, h host.Host, e *steps.Env) error {
	var claims []record.New
	for _, p := range s.Makes {
		c := record.New{Key: record.ProgramData.Of(p)}
		if _, err := h.Stat(ctx, p); err == nil && !steps.Created(e, record.Directory.Of(p), record.File.Of(p)) {
			c.Previous = true
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if c.Previous == nil {
			parents, err := e.Parents(ctx, h, p)
			if err != nil {
				return err
			}
			claims = append(claims, parents...)
		}
		claims = append(claims, c)
	}
	for _, n := range s.HNSNetworks {
		c := record.New{Key: record.HNSNetwork.Of(n)}
		if _, err := h.HNSNetwork(ctx, n); err == nil {
			c.Previous = true
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, host.ErrUnsupported) {
			return err
		}
		claims = append(claims, c)
	}
	kernel, err := s.claimKernel(ctx, h, e)
	if err != nil {
		return err
	}
	return e.Claim(ctx, h, append(append(claims, kernel...), record.New{Key: ServiceKey(s.Name)})...)
}
