package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

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
