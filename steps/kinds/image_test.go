package kinds_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// puller is a machine whose runtime pulls for a time and then answers.
type puller struct {
	host.Host
	takes time.Duration
	err   error
}

func (p puller) PullImage(ctx context.Context, _, _ string) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(p.takes):
		return p.err
	}
}

func (p puller) Image(context.Context, string, string) (*host.Image, error) { return nil, p.err }

// TestImagePull: a pull that takes long is reported; one that fails says what the registry answered and what to check.
func TestImagePull(t *testing.T) {
	image := &kinds.Image{Address: "/run/c.sock", Image: "registry.example/app:1"}
	for _, c := range []struct {
		err  error
		want string
		code steps.Code
	}{
		{nil, "", ""},
		{fs.ErrNotExist, "no container runtime serves the CRI at /run/c.sock, so nothing can pull registry.example/app:1",
			steps.CodeFailed},
		{&host.PullError{Image: "registry.example/app:1", Message: "401 Unauthorized: who"},
			"the container runtime cannot pull registry.example/app:1: 401 Unauthorized: who", steps.CodeFailed},
	} {
		synctest.Test(t, func(t *testing.T) {
			var notes []string
			e := &steps.Env{Progress: func(p event.StepProgress) { notes = append(notes, p.Note) }}
			_, err := image.Apply(t.Context(), puller{takes: 12 * time.Second, err: c.err}, e, steps.Change{})
			var failed *steps.Error
			switch {
			case c.want == "" && err != nil:
				t.Errorf("a pull that works: %v", err)
			case c.want != "" && (!errors.As(err, &failed) || failed.Detail != c.want || failed.Code != c.code):
				t.Errorf("%v: %+v", c.err, failed)
			}
			if have := strings.Join(notes, "\n"); have != "the runtime pulls registry.example/app:1, for 5s\n"+
				"the runtime pulls registry.example/app:1, for 10s" {
				t.Errorf("it reported %q", have)
			}
		})
	}
}

// TestImageNotAsked: a runtime that cannot be asked is no missing image; one that does not run yet is.
func TestImageNotAsked(t *testing.T) {
	image := &kinds.Image{Address: "/run/c.sock", Image: "registry.example/app:1"}
	if c, err := image.Check(t.Context(), puller{err: errors.New("it hangs")}, nil); err == nil {
		t.Errorf("a runtime that hangs: %+v", c)
	}
	c, err := image.Check(t.Context(), puller{err: fs.ErrNotExist}, nil)
	if err != nil || c.Action != steps.ActionCreate || c.Reason != "the container runtime does not run yet" {
		t.Errorf("no runtime: %+v, %v", c, err)
	}
}
