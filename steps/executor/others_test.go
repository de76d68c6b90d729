package executor

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"testing"

	"nodejoin/steps/host"
)

// guardedServices is a machine with a service that even administrators cannot open.
type guardedServices struct {
	host.Host
	err error
}

func (g guardedServices) Service(_ context.Context, name string) (host.Service, error) {
	if name != "CalicoFelix" {
		return host.Service{}, fs.ErrNotExist
	}
	return host.Service{}, g.err
}

// TestServicesOfOthers: a service of the CNI that cannot be opened is listed, and stops no leave. It is an error if
// the machine cannot be asked.
func TestServicesOfOthers(t *testing.T) {
	x := &Executor{host: guardedServices{err: fs.ErrPermission}}
	list, err := x.otherServices(t.Context())
	if want := []Other{{"service CalicoFelix", "Calico"}}; err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("%v, %v", list, err)
	}
	silent := errors.New("the service manager does not answer")
	x.host = guardedServices{err: silent}
	if list, err := x.otherServices(t.Context()); !errors.Is(err, silent) || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}
