package kinds

import (
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

var serviceRunningKind = steps.Kind{Name: "service_running", Place: steps.OnHost, Image: true,
	Doc:    "a service that is already registered, by whomever, runs; its settings are not checked",
	New:    func() any { return &ServiceRunning{} },
	Starts: steps.Starts(func(s *ServiceRunning) string { return s.Name })}

// ServiceRunning starts a service that is registered and does not run. It changes
// nothing else of it, and leave leaves it as it is.
type ServiceRunning struct {
	Name string `json:"name" doc:"name of the service" id:"true"`
	Log  string `json:"log,omitempty" doc:"its log file; the tail is shown when it ends by itself" path:"true"`
}

func (s *ServiceRunning) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	svc, err := r.Service(ctx, s.Name)
	if errors.Is(err, fs.ErrNotExist) {
		if step, ok := e.WillChange(steps.Touch{Service: s.Name}); ok {
			return steps.Change{Action: steps.ActionUnknown, Reason: step + " registers it"}, nil
		}
		return steps.Change{}, &steps.Error{Code: steps.CodeFailed, Summary: "the service is not registered",
			Detail: "there is no service " + s.Name,
			Remedy: "let what registers it come first"}
	}
	if err != nil || svc.State == host.ServiceRunning {
		return steps.Change{}, err
	}
	if e.Applied != nil && svc.State == host.ServiceStopped {
		return steps.Change{}, exited(ctx, r, svc, s.Log) // this run saw it running
	}
	return steps.Change{Action: steps.ActionStart, Reason: "it is " + string(svc.State),
		Touches: []steps.Touch{{Service: s.Name}}}, nil
}

func (s *ServiceRunning) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	if _, err := h.Service(ctx, s.Name); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{Outputs: map[string]string{}}, startService(ctx, h, s.Name, s.Log)
}
