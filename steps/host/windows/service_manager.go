//go:build windows

package windows

import (
	"context"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"
)

// Rights that a handle is opened with: no more than the call needs, so that
// reading works without elevation.
const (
	queryRights  = windows.SERVICE_QUERY_CONFIG | windows.SERVICE_QUERY_STATUS | windows.SERVICE_ENUMERATE_DEPENDENTS
	changeRights = queryRights | windows.SERVICE_CHANGE_CONFIG | windows.SERVICE_START // START: to set a restart action
)

func openManager(rights uint32) (*mgr.Mgr, error) {
	m, err := windows.OpenSCManager(nil, nil, rights)
	if err != nil {
		return nil, err
	}
	return &mgr.Mgr{Handle: m}, nil
}

// withService calls f with an open handle of the service.
func withService(ctx context.Context, op, name string, rights uint32, f func(*mgr.Mgr, *mgr.Service) error) error {
	if ctx.Err() != nil {
		return failed(op, name, context.Cause(ctx))
	}
	m, err := openManager(windows.SC_MANAGER_CONNECT | windows.SC_MANAGER_ENUMERATE_SERVICE)
	if err != nil {
		return failed(op, name, err)
	}
	defer m.Disconnect()
	s, err := openService(m, name, rights)
	if err != nil {
		return failed(op, name, err)
	}
	defer s.Close()
	return failed(op, name, f(m, s))
}

func openService(m *mgr.Mgr, name string, rights uint32) (*mgr.Service, error) {
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	s, err := windows.OpenService(m.Handle, p, rights)
	if err != nil {
		return nil, err
	}
	return &mgr.Service{Name: name, Handle: s}, nil
}
