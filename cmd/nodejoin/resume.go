package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/supervise"
)

// resumeLog is the log of the service on a machine.
func resumeLog(goos string) string {
	if goos == "windows" {
		return `C:\var\log\` + doctor.ResumeService + `\resume.log`
	}
	return "/var/log/" + doctor.ResumeService + "/resume.log"
}

// resumer returns engine.Options.Resume: how this machine finishes its part of the plan
// after a reboot.
func (a *app) resumer(ctx context.Context, args []string) func(plan.Node, host.Facts) (*engine.Resume, error) {
	type answer struct {
		resume *engine.Resume
		err    error
	}
	var mu sync.Mutex
	made := map[string]answer{}
	return func(n plan.Node, f host.Facts) (*engine.Resume, error) {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := made[n.Name]; !ok {
			r, err := a.makeResume(ctx, args, n, f)
			made[n.Name] = answer{r, err}
		}
		return made[n.Name].resume, made[n.Name].err
	}
}

func (a *app) makeResume(ctx context.Context, args []string, n plan.Node, f host.Facts) (*engine.Resume, error) {
	switch {
	case a.resumed != nil:
		return a.resumeAgain(n, f)
	case f.OS == "linux" && f.Init != "systemd":
		return nil, errors.New("nodejoin itself runs on it, " +
			"and nothing there starts services after a reboot (systemd is not process 1)")
	}
	r, err := a.resumption(ctx, args, n)
	if err != nil {
		return nil, err
	}
	program, sum, err := supervise.Self()
	if err != nil {
		return nil, fmt.Errorf("nodejoin's own program cannot be copied for after the reboot: %w", err)
	}
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	return resumeSteps(f, steps.Source{File: program, SHA256: sum}, text), nil
}

// resumeAgain is for a plan with more than one reboot, such as before and after features are turned on. The
// service already exists; it is set to continue after one more reboot.
func (a *app) resumeAgain(n plan.Node, f host.Facts) (*engine.Resume, error) {
	planned := 0
	for _, s := range n.Steps {
		if kinds.Of(s).Reboots {
			planned++
		}
	}
	if a.resumed.Reboots >= planned {
		return nil, errors.New("it has already been rebooted for this plan; reboot it by hand if it must be rebooted again")
	}
	next := *a.resumed
	next.Reboots, next.Starts = next.Reboots+1, 0
	text, err := next.text()
	if err != nil {
		return nil, err
	}
	list := resumeSteps(f, steps.Source{}, text).Steps
	i := slices.IndexFunc(list, func(s steps.Spec) bool { return s.ID == resumePlanID })
	return &engine.Resume{Service: doctor.ResumeService, Log: resumeLog(f.OS), Steps: list[i : i+1]}, nil
}

// resumePlanID is the step that writes the resumption.
const resumePlanID = "resume_plan"

// resumeSteps put on a machine what finishes the plan after its reboot: the program and the
// resumption. Only administrators may change them, since the service runs with all rights.
func resumeSteps(f host.Facts, program steps.Source, text string) *engine.Resume {
	dir := host.Join(f.OS, f.DataDir, "resume")
	path, file, log := host.Join(f.OS, dir, "nodejoin"), host.Join(f.OS, dir, "resume.json"), resumeLog(f.OS)
	if f.OS == "windows" {
		path += ".exe"
	}
	spec := func(id, kind, title string, args any) steps.Spec {
		return steps.Spec{ID: id, Kind: kind, Title: title, Args: steps.MustArgs(args)}
	}
	logDir := host.Dir(f.OS, log)
	return &engine.Resume{Service: doctor.ResumeService, Log: log, Steps: []steps.Spec{
		spec("resume_dir", "directory", "Folder for after the reboot",
			&kinds.Directory{Path: dir, Access: host.AccessPrivate}),
		spec("resume_log_dir", "directory", "Folder of the log of "+doctor.ResumeService,
			&kinds.Directory{Path: logDir, Access: host.AccessPrivate}),
		spec("resume_program", "binary", "nodejoin, for after the reboot", &kinds.Binary{Source: program, Path: path,
			Services: []string{doctor.ResumeService}}),
		spec(resumePlanID, "file", "The plan, for after the reboot",
			&kinds.File{Path: file, Content: text, Access: host.AccessPrivate}),
		spec("resume_service", "service", "Service "+doctor.ResumeService+", for after the reboot", &kinds.Service{
			State: host.ServiceStopped, Log: log, Makes: []string{logDir},
			ServiceConfig: host.ServiceConfig{Name: doctor.ResumeService, DisplayName: doctor.ResumeService,
				Description: "Finishes a join plan once, after a reboot", Command: []string{path, "resume", file},
				Start: host.StartAuto}}),
	}}
}

// resumption describes what this run does on one node, for a service that does not have
// this run's environment.
func (a *app) resumption(ctx context.Context, args []string, n plan.Node) (*resumption, error) {
	var needs []string
	b := &app{term: a.term, vars: a.vars, varFiles: a.varFiles, targets: ofNode(a.targets, n), skips: ofNode(a.skips, n)}
	b.env = func(name string) (string, bool) {
		v, ok := a.lookupEnv(name)
		if ok && !slices.Contains(folderVariables, name) && !slices.Contains(needs, name) {
			needs = append(needs, name)
		}
		return v, ok
	}
	if len(b.targets) == 0 {
		b.targets = []string{n.Address}
	}
	c, diags, _, err := b.compile(ctx, args)
	if err == nil && diags.HasErrors() {
		err = fmt.Errorf("the plan changed while it was read: %w", diags)
	}
	if err == nil {
		err = selection.Apply(c, b.targets, b.skips)
	}
	if err != nil {
		return nil, err
	}
	p, err := b.describe(args, c, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range p.Secret {
		needs = append(needs, "--var "+name)
	}
	if len(needs) > 0 {
		slices.Sort(needs)
		return nil, fmt.Errorf("nodejoin itself runs on it, and the service that would finish the plan after the reboot "+
			"does not have what the plan takes only from this run: %s. Put it into a file (--var-file) that only "+
			"administrators can read, or reboot by hand",
			strings.Join(needs, ", "))
	}
	r := &resumption{Version: resumeVersion, Node: n.Name, Reboots: 1, Flags: a.applyFlags(),
		Folders: map[string]string{}}
	if r.Plan, err = p.Encode(); err != nil {
		return nil, err
	}
	for _, name := range folderVariables {
		if v, ok := os.LookupEnv(name); ok {
			r.Folders[name] = v
		}
	}
	return r, nil
}

// ofNode are the addresses that name a node or a step of it.
func ofNode(addresses []string, n plan.Node) []string {
	var out []string
	for _, t := range addresses {
		if t == n.Address || t == n.Name || strings.HasPrefix(t, n.Address+".") || strings.HasPrefix(t, n.Name+".") {
			out = append(out, t)
		}
	}
	return out
}

// applyFlags are the flags of this apply that also apply after the reboot.
func (a *app) applyFlags() []string {
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"allow-downgrade", a.downgrade}, {"delete-emptydir-data", a.drain.DeleteEmptyDirData}, {"force", a.drain.Force},
		{"prune-changed", a.pruneChanged}} {
		if f.set {
			out = append(out, "--"+f.name)
		}
	}
	if a.drain.Timeout > 0 {
		out = append(out, "--drain-timeout="+a.drain.Timeout.Round(time.Second).String())
	}
	return out
}
