package kinds

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
	"nodejoin/steps/wait"
)

var httpReadyKind = steps.Kind{Name: "http_ready", Place: steps.OnHost, Image: true,
	Waits: true, Timeout: 3 * time.Minute,
	Doc:  "a gate: an address on the machine answers",
	New:  func() any { return &HTTPReady{} },
	Gate: steps.Gate((*HTTPReady).behind)}

var pipeReadyKind = steps.Kind{Name: "pipe_ready", Place: steps.OnHost, Image: true,
	Waits: true, Timeout: 3 * time.Minute,
	Doc:  "a gate: a named pipe or unix socket answers",
	New:  func() any { return &PipeReady{} },
	Gate: steps.Gate((*PipeReady).behind)}

var fileReadyKind = steps.Kind{Name: "file_ready", Place: steps.OnHost, Image: true, Waits: true,
	Timeout: 5 * time.Minute, Doc: "a gate: a program has written a file",
	New: func() any { return &FileReady{} }, Credentials: steps.Credentials((*FileReady).credentials),
	Gate: steps.Gate((*FileReady).behind), Evidence: steps.Shows(func(f *FileReady) []steps.Evidence {
		return []steps.Evidence{{File: f.Path}}
	})}

var hnsReadyKind = steps.Kind{Name: "hns_network_ready", Place: steps.OnHost, Waits: true, OS: "windows",
	Timeout: 5 * time.Minute, Doc: "a gate: an HNS network exists and has its management address",
	Outputs: []string{"management_ip"},
	New:     func() any { return &HNSNetworkReady{} },
	Gate:    steps.Gate((*HNSNetworkReady).behind), Evidence: steps.Shows(func(n *HNSNetworkReady) []steps.Evidence {
		return []steps.Evidence{{HNSNetwork: n.Name}}
	})}

// statusOK is HTTP's 200 (RFC 9110, 15.3.1). The kinds themselves need no HTTP
// library: hosts do the asking.
const statusOK = 200

// HTTPReady waits until an address answers with the wanted status.
type HTTPReady struct {
	URL     string `json:"url" doc:"http address on the machine" id:"true"`
	Status  int    `json:"status,omitempty" doc:"wanted status, default 200"`
	Service string `json:"service,omitempty" doc:"the service behind it: the wait ends at once when it stops"`
	Log     string `json:"log,omitempty" doc:"its log file; the tail is shown when the wait fails" path:"true"`
}

// PipeReady waits until a pipe or socket accepts, and answers a gRPC call if one is named.
type PipeReady struct {
	Address    string `json:"address" doc:"\\\\.\\pipe\\NAME or the path of a unix socket" id:"true"`
	GRPCMethod string `json:"grpc_method,omitempty" doc:"a unary gRPC method that takes an empty message"`
	Service    string `json:"service,omitempty" doc:"as for http_ready"`
	Log        string `json:"log,omitempty" doc:"as for http_ready" path:"true"`
}

// FileReady waits until a file exists and holds a text.
type FileReady struct {
	Path     string `json:"path" doc:"absolute path" id:"true" path:"true"`
	Contains string `json:"contains,omitempty" doc:"text that it must hold"`
	// Interface: a program writes the file once, and its interface may go later.
	Interface string `json:"interface,omitempty" doc:"Linux: network interface that the program has made by then"`
	Service   string `json:"service,omitempty" doc:"as for http_ready"`
	Log       string `json:"log,omitempty" doc:"as for http_ready" path:"true"`
}

// HNSNetworkReady waits for an HNS network with a management IP. Outputs:
// management_ip. A network of another type or VNI is an error, not a wait.
type HNSNetworkReady struct {
	Name    string `json:"name" doc:"name of the network, for example flannel.4096" id:"true"`
	Type    string `json:"type,omitempty" doc:"wanted type, for example Overlay"`
	VNI     uint32 `json:"vni,omitempty" doc:"wanted VXLAN network identifier"`
	Subnet  string `json:"subnet,omitempty" doc:"a subnet that it must have; an old one is waited out"`
	Service string `json:"service,omitempty" doc:"as for http_ready"`
	Log     string `json:"log,omitempty" doc:"as for http_ready" path:"true"`
}

// readiness is a condition that something else brings about.
type readiness struct {
	what         string // completes "waits until ..."
	service, log string
	// restarts: a restart of the service brings back what was there before.
	restarts bool
	// observe looks once. observed says what was found instead; an error ends the wait.
	observe func(ctx context.Context, r host.Reader) (o observation, err error)
}

type observation struct {
	ok       bool
	observed string
	outputs  map[string]string
}

// probeTimeout bounds one look at a gate.
const probeTimeout = 5 * time.Second

func (g readiness) look(ctx context.Context, r host.Reader) (observation, error) {
	once, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	o, err := g.observe(once, r)
	if err != nil && once.Err() != nil && ctx.Err() == nil {
		return observation{observed: "no answer within " + probeTimeout.String()}, nil
	}
	return o, err
}

func (g readiness) check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	wait := steps.Change{Action: steps.ActionWait, Reason: "waits until " + g.what}
	if g.service != "" {
		if _, ok := e.WillChange(steps.Touch{Service: g.service}); ok {
			return wait, nil
		}
	}
	if steps.HasRef(g.what) {
		return wait, nil
	}
	o, err := g.look(ctx, r)
	if err != nil {
		return steps.Change{}, err
	}
	if o.ok {
		return steps.Change{Outputs: o.outputs}, nil
	}
	if e.WasOpen && g.restarts && g.service != "" {
		return steps.Change{Action: steps.ActionRestart, Touches: []steps.Touch{{Service: g.service}},
			Reason: fmt.Sprintf("restarts %s: it was so that %s, and is no longer", g.service, g.what)}, nil
	}
	return wait, nil
}

// Bounds of what may come back by itself: in a service that nodejoin started, in one that its recovery or a person
// started since, and in one that a boot may have started.
const (
	opensAgain         = 3 * time.Second
	opensAfterRecovery = 10 * time.Second
	opensAfterBoot     = time.Minute
	bootMost           = 5 * time.Minute // no boot takes longer until its services have started
)

// opensWithin is how long what a service has made may take to come back.
func opensWithin(e *steps.Env, svc host.Service) time.Duration {
	switch {
	case !e.StartedByOthers(svc):
		return opensAgain
	case !e.Facts.BootTime.IsZero() && time.Since(e.Facts.BootTime) > bootMost:
		return opensAfterRecovery
	}
	return opensAfterBoot
}

// restart brings back what a service that runs has made and that is gone, unless it comes by
// itself. The service's own step has seen that it runs.
func (g readiness) restart(ctx context.Context, h host.Host, e *steps.Env) error {
	svc, err := h.Service(ctx, g.service)
	if err != nil || ended(svc) {
		return err // the wait says it
	}
	bound, cancel := context.WithTimeout(ctx, opensWithin(e, svc))
	defer cancel()
	err = wait.Until(bound, lookMost, func() (bool, error) {
		o, err := g.look(bound, h)
		return o.ok, err
	})
	if err == nil || ctx.Err() != nil || bound.Err() == nil {
		return err
	}
	return restartService(ctx, h, e, g.service, g.log)
}

// restartService restarts a service with those that depend on it.
func restartService(ctx context.Context, h host.Host, e *steps.Env, name, log string) error {
	if err := stopService(ctx, h, e, name); err != nil {
		return err
	}
	if err := startService(ctx, h, name, log); err != nil {
		return err
	}
	if err := noteRestart(ctx, h, e, name); err != nil {
		return err
	}
	return startAgain(ctx, h, e, name)
}

// open waits, and restarts the service before where that is the change.
func (g readiness) open(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	if c.Action == steps.ActionRestart {
		if err := g.restart(ctx, h, e); err != nil {
			return steps.Outcome{}, err
		}
	}
	return g.apply(ctx, h, e)
}

func (g readiness) apply(ctx context.Context, h host.Host, e *steps.Env) (steps.Outcome, error) {
	var last observation
	start, reported := time.Now(), time.Now()
	err := wait.Until(ctx, lookMost, func() (bool, error) {
		o, err := g.look(ctx, h)
		if err != nil {
			return false, err
		}
		last = o
		if o.ok {
			return true, nil
		}
		if err := g.alive(ctx, h); err != nil {
			return false, err
		}
		if time.Since(reported) >= 2*time.Second {
			reported = time.Now()
			e.Progress(event.StepProgress{Note: fmt.Sprintf("waits until %s; so far: %s", g.what, o.observed)})
		}
		return false, nil
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return steps.Outcome{}, &steps.Error{Code: steps.CodeTimeout, Summary: "not ready in time",
			Detail: fmt.Sprintf("waited %s until %s; last observed: %s%s", time.Since(start).Round(time.Second), g.what,
				cmp.Or(last.observed, "nothing"), logTail(ctx, h, g.log)),
			Remedy: g.remedy()}
	}
	return steps.Outcome{Outputs: last.outputs}, err
}

func (g readiness) remedy() string {
	if g.service == "" {
		return "look at the program that should bring it about; raise the step's timeout if the machine is slow"
	}
	return fmt.Sprintf("look at service %s and its log; raise the step's timeout if the machine is slow", g.service)
}

// alive fails when the service behind the gate has stopped, for then it will not come.
func (g readiness) alive(ctx context.Context, r host.Reader) error {
	if g.service == "" {
		return nil
	}
	svc, err := r.Service(ctx, g.service)
	if errors.Is(err, fs.ErrNotExist) {
		return &steps.Error{Code: steps.CodeFailed, Summary: "the service is not registered",
			Detail: fmt.Sprintf("the step waits until %s, but service %s, which brings it about, is not registered", g.what,
				g.service),
			Remedy: "let the step that registers the service come first"}
	}
	if err != nil || !ended(svc) {
		return err
	}
	return fmt.Errorf("the step waits until %s: %w", g.what, exited(ctx, r, svc, g.log))
}

func (p *HTTPReady) behind() string { return p.Service }

func (p *HTTPReady) gate() readiness {
	want := p.Status
	if want == 0 {
		want = statusOK
	}
	return readiness{what: fmt.Sprintf("%s answers with status %d", p.URL, want), restarts: true, service: p.Service,
		log: p.Log,
		observe: func(ctx context.Context, r host.Reader) (observation, error) {
			status, err := r.ProbeHTTP(ctx, p.URL)
			if err != nil {
				return silent(err)
			}
			return observation{ok: status == want, observed: fmt.Sprintf("status %d", status)}, nil
		}}
}

func (p *PipeReady) behind() string { return p.Service }

func (p *PipeReady) gate() readiness {
	what := p.Address + " accepts a connection"
	if p.GRPCMethod != "" {
		what = p.Address + " answers " + p.GRPCMethod
	}
	return readiness{what: what, restarts: true, service: p.Service, log: p.Log,
		observe: func(ctx context.Context, r host.Reader) (observation, error) {
			if err := r.ProbePipe(ctx, p.Address, p.GRPCMethod); err != nil {
				return silent(err)
			}
			return observation{ok: true}, nil
		}}
}

// silent takes a failed probe for "nothing answers", except where waiting cannot help.
func silent(err error) (observation, error) {
	if errors.Is(err, host.ErrUnsupported) {
		return observation{}, err
	}
	return observation{observed: err.Error()}, nil
}

func (p *FileReady) behind() string { return p.Service }

func (p *FileReady) gate() readiness {
	what := p.Path + " exists"
	if p.Contains != "" {
		what = fmt.Sprintf("%s holds %s", p.Path, p.Contains)
	}
	if p.Interface != "" {
		what += " and interface " + p.Interface + " exists"
	}
	return readiness{what: what, restarts: true, service: p.Service, log: p.Log,
		observe: func(ctx context.Context, r host.Reader) (observation, error) {
			o, err := p.observe(ctx, r)
			if err != nil || !o.ok || p.Interface == "" {
				return o, err
			}
			have, err := interfaces(ctx, r, p.Interface)
			return observation{ok: len(have) > 0, observed: "the file is there, the interface is not"}, err
		}}
}

// observe looks at the file.
func (p *FileReady) observe(ctx context.Context, r host.Reader) (observation, error) {
	if p.Contains == "" {
		_, err := r.Stat(ctx, p.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return observation{observed: "it does not exist"}, nil
		}
		return observation{ok: err == nil}, err
	}
	rc, err := r.Open(ctx, p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return observation{observed: "it does not exist"}, nil
	}
	if err != nil {
		return observation{}, err
	}
	defer rc.Close()
	found, err := contains(rc, []byte(p.Contains))
	return observation{ok: found, observed: "it exists without that text"}, err
}

// contains searches a stream without holding it in memory.
func contains(r io.Reader, text []byte) (bool, error) {
	buf := make([]byte, 64<<10+len(text))
	n := 0
	for {
		m, err := r.Read(buf[n:])
		n += m
		if bytes.Contains(buf[:n], text) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if keep := len(text) - 1; n > keep {
			n = copy(buf, buf[n-keep:n])
		}
	}
}

func (p *HNSNetworkReady) behind() string { return p.Service }

func (p *HNSNetworkReady) gate() readiness {
	what := fmt.Sprintf("HNS network %s has its management address", p.Name)
	if p.Subnet != "" {
		what = fmt.Sprintf("HNS network %s has the subnet %s and its management address", p.Name, p.Subnet)
	}
	return readiness{what: what, restarts: true, service: p.Service, log: p.Log,
		observe: func(ctx context.Context, r host.Reader) (observation, error) {
			return p.seen(r.HNSNetwork(ctx, p.Name))
		}}
}

// seen is what an answer of HNS means.
func (p *HNSNetworkReady) seen(n host.HNSNetwork, err error) (observation, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return observation{observed: "there is no such network"}, nil
	case errors.Is(err, host.ErrUnsupported):
		return observation{}, err
	case err != nil: // it errs while a virtual switch is made, and while it restarts
		return observation{observed: "HNS does not answer: " + err.Error()}, nil //nolint:nilerr // as the comment says
	}
	return p.judge(n)
}

// ours reports whether the program of the gate's service made the network.
func (p *HNSNetworkReady) ours(e *steps.Env) bool {
	return p.Service != "" && steps.Created(e, record.HNSNetwork.Of(p.Name))
}

// wrong says how a network differs from the wanted one; "" = it does not.
func (p *HNSNetworkReady) wrong(n host.HNSNetwork) string {
	var wrong []string
	if p.Type != "" && !strings.EqualFold(p.Type, n.Type) {
		wrong = append(wrong, fmt.Sprintf("is of type %s, wanted is %s", n.Type, p.Type))
	}
	if p.VNI != 0 && n.VNI != 0 && p.VNI != n.VNI { // HNS may not report it
		wrong = append(wrong, fmt.Sprintf("has VNI %d, wanted is %d", n.VNI, p.VNI))
	}
	return strings.Join(wrong, " and ")
}

// judge compares a network that is there with the wanted one.
func (p *HNSNetworkReady) judge(n host.HNSNetwork) (observation, error) {
	if wrong := p.wrong(n); wrong != "" {
		return observation{}, &steps.Error{Code: steps.CodeFailed, Summary: "another HNS network is in the way",
			Detail: fmt.Sprintf("HNS network %s (%s) %s", n.Name, n.ID, wrong),
			Remedy: "if no pods use it, remove it (hnsdiag delete networks " + n.ID + ") and apply again; otherwise give " +
				"the plan the network's type and VNI"}
	}
	if p.Subnet != "" && !slices.Contains(n.Subnets, p.Subnet) {
		return observation{observed: "the network has the subnet " + cmp.Or(strings.Join(n.Subnets, ", "), "none")}, nil
	}
	if n.ManagementIP == "" {
		return observation{observed: "the network exists without a management address"}, nil
	}
	return observation{ok: true, outputs: map[string]string{"management_ip": n.ManagementIP}}, nil
}

func (p *HTTPReady) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	return p.gate().check(ctx, r, e)
}

func (p *HTTPReady) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	return p.gate().open(ctx, h, e, c)
}

func (p *PipeReady) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	return p.gate().check(ctx, r, e)
}

func (p *PipeReady) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	return p.gate().open(ctx, h, e, c)
}

func (p *FileReady) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	return p.gate().check(ctx, r, e)
}

func (p *FileReady) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	return p.gate().open(ctx, h, e, c)
}

func (p *HNSNetworkReady) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	have, err := readNetwork(ctx, r, e, p.Name)
	if err == nil && p.wrong(have) != "" && p.ours(e) {
		return steps.Change{Action: steps.ActionRestart, Touches: []steps.Touch{{Service: p.Service}},
			Reason: fmt.Sprintf("restarts %s, which makes HNS network %s again: it %s", p.Service, p.Name, p.wrong(have))}, nil
	}
	g := p.gate()
	g.observe = func(context.Context, host.Reader) (observation, error) { return p.seen(have, err) }
	return g.check(ctx, r, e)
}

func (p *HNSNetworkReady) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (
	steps.Outcome, error) {
	have, err := readNetwork(ctx, h, e, p.Name)
	if err == nil && p.wrong(have) != "" && p.ours(e) {
		if err := stopService(ctx, h, e, p.Service); err != nil {
			return steps.Outcome{}, err
		}
		if err := deleteNetwork(ctx, h, e, p.Name); err != nil {
			return steps.Outcome{}, err
		}
		if err := restartService(ctx, h, e, p.Service, p.Log); err != nil {
			return steps.Outcome{}, err
		}
		return p.gate().apply(ctx, h, e)
	}
	return p.gate().open(ctx, h, e, c)
}

// credentials is the serving certificate, where the gate waits for one.
func (p *FileReady) credentials(ctx context.Context, r host.FilesReader, _ string) ([]steps.Credential, error) {
	if p.Contains != "BEGIN CERTIFICATE" {
		return nil, nil
	}
	text, err := textOf(ctx, r, p.Path)
	return certificateLife("serving certificate", p.Path, text), err
}
