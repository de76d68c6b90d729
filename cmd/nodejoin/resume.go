package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"nodejoin/plan"
	"nodejoin/plan/saved"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/supervise"
)

// resumption is what steps.ResumeService is told, as a file in nodejoin's folder. It holds no
// secret: a plan that needs one of this run's environment is not resumed.
type resumption struct {
	Version int             `json:"version"` // resumeVersion
	Node    string          `json:"node"`
	Plan    json.RawMessage `json:"plan"`            // as saved.Plan encodes it, without what its hosts were found as
	Flags   []string        `json:"flags,omitempty"` // of apply
	// Folders are variables that say where files of the one who ran apply are.
	Folders map[string]string `json:"folders,omitempty"`
	Starts  int               `json:"starts"`  // of the service since the last reboot
	Reboots int               `json:"reboots"` // that the plan has made, with that before this run

	saved *saved.Plan
}

const resumeVersion = 1

// folderVariables say where ~ is, and where nodejoin keeps its history and its cache. A
// service has others of its own.
var folderVariables = []string{"HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_STATE_HOME"}

// resumeLog is the log of the service on a machine.
func resumeLog(goos string) string {
	if goos == "windows" {
		return `C:\var\log\` + steps.ResumeService + `\resume.log`
	}
	return "/var/log/" + steps.ResumeService + "/resume.log"
}

// resumer gives what lets this machine finish its part of the plan after a boot.
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
		return nil, errors.New("nodejoin runs on it itself, and nothing there starts services after a boot (systemd is not process 1)")
	}
	r, err := a.resumption(ctx, args, n)
	if err != nil {
		return nil, err
	}
	program, sum, err := supervise.Self()
	if err != nil {
		return nil, fmt.Errorf("nodejoin's own program cannot be kept for after the boot: %w", err)
	}
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	return resumeSteps(f, steps.Source{File: program, SHA256: sum}, text), nil
}

// resumeAgain is for a plan that has more than one reboot: before features are turned on, and
// after that. What finishes it is there already, and told that it is not the last boot.
func (a *app) resumeAgain(n plan.Node, f host.Facts) (*engine.Resume, error) {
	planned := 0
	for _, s := range n.Steps {
		if s.Kind == "reboot" {
			planned++
		}
	}
	if a.resumed.Reboots >= planned {
		return nil, errors.New("it was rebooted for this plan already; once more is for a person to decide")
	}
	next := *a.resumed
	next.Reboots, next.Starts = next.Reboots+1, 0
	text, err := next.text()
	if err != nil {
		return nil, err
	}
	list := resumeSteps(f, steps.Source{}, text).Steps
	i := slices.IndexFunc(list, func(s steps.Spec) bool { return s.ID == resumePlanID })
	return &engine.Resume{Service: steps.ResumeService, Log: resumeLog(f.OS), Steps: list[i : i+1]}, nil
}

// resumePlanID is the step of the file that resumption is.
const resumePlanID = "resume_plan"

// resumeSteps leave on a machine what finishes the plan after its boot: the program and
// what it is told, which nobody else may change, since it runs with all rights.
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
	return &engine.Resume{Service: steps.ResumeService, Log: log, Steps: []steps.Spec{
		spec("resume_dir", "directory", "Folder for after the boot", &steps.Directory{Path: dir, Access: host.AccessPrivate}),
		spec("resume_log_dir", "directory", "Folder of the log of "+steps.ResumeService, &steps.Directory{Path: logDir, Access: host.AccessPrivate}),
		spec("resume_program", "binary", "nodejoin, for after the boot", &steps.Binary{Source: program, Path: path, Services: []string{steps.ResumeService}}),
		spec(resumePlanID, "file", "The plan, for after the boot", &steps.File{Path: file, Content: text, Access: host.AccessPrivate}),
		spec("resume_service", "service", "Service "+steps.ResumeService+", for after the boot", &steps.Service{State: host.ServiceStopped, Log: log, Makes: []string{logDir},
			ServiceConfig: host.ServiceConfig{Name: steps.ResumeService, DisplayName: steps.ResumeService, Description: "Finishes a join plan after a boot, once", Command: []string{path, "resume", file}, Start: host.StartAuto}}),
	}}
}

// resumption describes this run's part of one node, for a service without this run's
// environment.
func (a *app) resumption(ctx context.Context, args []string, n plan.Node) (*resumption, error) {
	var needs []string
	b := &app{term: a.term, vars: a.vars, varFiles: a.varFiles, targets: ofNode(a.targets, n), skips: ofNode(a.skips, n), env: func(name string) (string, bool) {
		v, ok := a.lookupEnv(name)
		if ok && !slices.Contains(folderVariables, name) && !slices.Contains(needs, name) {
			needs = append(needs, name)
		}
		return v, ok
	}}
	if len(b.targets) == 0 {
		b.targets = []string{n.Address}
	}
	c, diags, _, err := b.compile(ctx, args)
	if err == nil && diags.HasErrors() {
		err = fmt.Errorf("the plan was changed while it was read: %w", diags)
	}
	if err == nil {
		err = b.target(c)
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
		return nil, fmt.Errorf("nodejoin runs on it itself, and the service that would finish the plan after the boot does not have what the plan takes from this run alone: %s. Give it in a file (--var-file) that administrators alone can read, or reboot by hand", strings.Join(needs, ", "))
	}
	r := &resumption{Version: resumeVersion, Node: n.Name, Reboots: 1, Flags: a.applyFlags(), Folders: map[string]string{}}
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

// applyFlags are those of this apply that also count after a boot.
func (a *app) applyFlags() []string {
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"allow-downgrade", a.downgrade}, {"delete-emptydir-data", a.drain.DeleteEmptyDirData}, {"force", a.drain.Force}} {
		if f.set {
			out = append(out, "--"+f.name)
		}
	}
	if a.drain.Timeout > 0 {
		out = append(out, "--drain-timeout="+a.drain.Timeout.Round(time.Second).String())
	}
	return out
}

// readResumption reads what the service is told.
func readResumption(path string) (*resumption, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &resumption{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Version != resumeVersion {
		return nil, fmt.Errorf("%s has version %d, this nodejoin knows %d", path, r.Version, resumeVersion)
	}
	if r.saved, err = saved.Decode(r.Plan); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// text is the file.
func (r *resumption) text() (string, error) {
	b, err := json.MarshalIndent(r, "", " ")
	return string(b) + "\n", err
}

// useFolders gives this process the folders of the one who ran apply.
func (r *resumption) useFolders() error {
	for _, name := range slices.Sorted(maps.Keys(r.Folders)) {
		if err := os.Setenv(name, r.Folders[name]); err != nil {
			return err
		}
	}
	return nil
}
