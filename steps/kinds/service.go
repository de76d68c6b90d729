package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var serviceKind = steps.Kind{Name: "service", Place: steps.OnHost, Image: true,
	Doc: "a registered service, its settings and its run state",
	Undo: map[record.Prefix]steps.Undo{
		record.Service: {Called: "service", New: undoService, Order: steps.UndoServices, State: readServiceState,
			Rollback: rollBackService,
			Early:    always, Now: serviceNow, Halt: stopAhead, Means: "it stops and is unregistered"},
		record.ProgramData: {Called: "data of a program:", New: undoMade, Removes: removesProgramData,
			Snapshot: steps.SnapshotNew, IsNew: steps.NewPath,
			Holds: holdsPath},
		record.Interface: {Called: "network interface", New: undoInterface, Order: steps.UndoOfPrograms,
			Snapshot: steps.SnapshotNew, Means: pausesTraffic},
		record.Chains: {Called: "packet filter chains", New: undoChains, Order: steps.UndoOfPrograms,
			Snapshot: steps.SnapshotNew},
		record.FilterTable: {Called: "packet filter table", New: undoFilterTable, Order: steps.UndoOfPrograms,
			Snapshot: steps.SnapshotNew},
		record.Routes: {Called: "routes", New: undoRoutes, Order: steps.UndoOfPrograms, Snapshot: steps.SnapshotNew,
			Means: pausesTraffic},
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
		"makes": "files and folders that its program makes; leave removes them with all that is in them",
		"renews": "files that its program writes once it is ready; they are removed before it starts, so that their " +
			"gate waits for new ones",
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
	Keeps:    steps.Keeps((*Service).keeps),
	Secrets:  steps.Secrets((*Service).secrets),
	Evidence: steps.Shows((*Service).evidence),
	Runs:     steps.Runs(func(s *Service) host.ServiceConfig { return s.ServiceConfig }),
	Review:   steps.Review((*Service).review),
	Render: steps.Renders(func(s *Service, _ steps.RenderFor) (steps.Rendering, error) {
		s.Environment = steps.ShowEnvironment(s.Environment, s.SensitiveEnvironment)
		return steps.Rendering{Service: s.Name}, nil
	})}

// pausesTraffic is Undo.Means of what connects pods in the kernel of Linux. It goes after the steps, whose gates have
// seen what comes in its place.
const pausesTraffic = "pods do not reach those of other nodes for the seconds in which its service starts again"

// always is Undo.Early of what goes before the steps run.
func always(record.Key) bool { return true }

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
	former, err := formerNetworks(ctx, r, e, s.HNSNetworks...)
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
	former, err := formerNetworks(ctx, h, e, s.HNSNetworks...)
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
		if err := deleteNetwork(ctx, h, e, n); err != nil {
			return steps.Outcome{}, err
		}
	}
	for _, p := range s.Renews {
		if err := h.Remove(ctx, p); err != nil {
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
		if _, err := readNetwork(ctx, h, e, n); err == nil {
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
	return e.Claim(ctx, h, append(append(claims, kernel...), record.New{Key: ServiceKey(s.Name), Detail: s.Pods})...)
}
