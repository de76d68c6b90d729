package executor_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// TestLeftFeatureService: the next apply, and a leave, remove the service for features that a killed run has
// registered and not started. One that is at work stays.
func TestLeftFeatureService(t *testing.T) {
	for name, run := range map[string]func(x *executor.Executor) error{
		"apply": func(x *executor.Executor) error {
			_, err := x.Apply(t.Context(), executor.Request{Node: "n"})
			return err
		},
		"leave": func(x *executor.Executor) error {
			reply, err := x.Leave(t.Context(), executor.LeaveRequest{Node: "n"})
			if err == nil && reply.Err != nil {
				err = reply.Err
			}
			return err
		},
	} {
		for _, runs := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				h := stepstest.OpenHost(t, "windows")
				stepstest.Must(t, h.WriteFile(t.Context(), `C:\agent.exe`, strings.NewReader("x"), host.WriteOptions{}))
				stepstest.Must(t, h.CreateService(t.Context(), host.ServiceConfig{Name: host.FeatureService,
					Command: []string{`C:\agent.exe`, "feature", "install", "Containers"}, Start: host.StartManual}))
				if runs {
					stepstest.Must(t, h.StartService(t.Context(), host.FeatureService))
				}
				stepstest.Must(t, run(executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})))
				_, err := h.Service(t.Context(), host.FeatureService)
				if runs && err != nil || !runs && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("runs: %v; then %v", runs, err)
				}
			})
		}
	}
}
