package steps

import (
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps/host"
)

var serviceRunningKind = Kind{Name: "service_running", Place: OnHost, Doc: "a service that is registered already runs, whoever registered it; its settings are not looked at",
	New: func() any { return &ServiceRunning{} }}

// ServiceRunning starts a service that is registered and does not run. It changes
// nothing else of it, and leave leaves it as it is.
type ServiceRunning struct {
	Name string `json:"name" doc:"name of the service" id:"true"`
	Log  string `json:"log,omitempty" doc:"its log file; the tail is shown when it ends by itself" path:"true"`
}

func (s *ServiceRunning) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	svc, err := r.Service(ctx, s.Name)
	if errors.Is(err, fs.ErrNotExist) {
		if step, ok := e.WillChange(Touch{Service: s.Name}); ok {
			return Change{Action: ActionUnknown, Reason: step + " registers it"}, nil
		}
		return Change{}, &Error{Code: CodeFailed, Summary: "the service is not registered", Detail: "there is no service " + s.Name,
			Remedy: "let what registers it come first"}
	}
	if err != nil || svc.State == host.ServiceRunning {
		return Change{}, err
	}
	if e.Applied != nil && svc.State == host.ServiceStopped {
		return Change{}, exited(ctx, r, svc, s.Log) // this run saw it running
	}
	return Change{Action: ActionStart, Reason: "it is " + string(svc.State), Touches: []Touch{{Service: s.Name}}}, nil
}

func (s *ServiceRunning) Apply(ctx context.Context, h host.Host, e *Env, _ Change) (Outcome, error) {
	if _, err := h.Service(ctx, s.Name); err != nil {
		return Outcome{}, err
	}
	return Outcome{Outputs: map[string]string{}}, startService(ctx, h, s.Name, s.Log)
}
