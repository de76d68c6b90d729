//go:build linux

package linux

import (
	"context"
	"sync"

	"nodejoin/steps/host"
)

// Host is the machine this program runs on. It is safe for concurrent use, also by
// several processes.
type Host struct {
	dataDir  string
	envFile  string
	nameFile string
	services serviceManager
	trust    []trustStore // the first that is there

	factsMu sync.Mutex
	facts   *host.Facts

	childMu  sync.Mutex
	children map[processID]*child
}

// serviceManager is what registers and runs the services of this machine: systemd
// where it is process 1, else nodejoin's own. The methods are those of host.Host.
type serviceManager interface {
	Service(ctx context.Context, name string) (host.Service, error)
	Dependents(ctx context.Context, name string) ([]string, error)
	CreateService(ctx context.Context, c host.ServiceConfig) error
	UpdateService(ctx context.Context, c host.ServiceConfig) error
	StartService(ctx context.Context, name string) error
	StopService(ctx context.Context, name string) error
	DeleteService(ctx context.Context, name string) error
}

// child is a process that this one started, and that it must therefore reap.
type child struct {
	ended bool
	code  int
}

// trustStore is how a distribution keeps trusted authorities: a folder of the administrator's certificates,
// and a program that builds the rest from it.
type trustStore struct {
	anchors string   // folder, one certificate a file
	program string   // in one of sbinDirs
	update  []string // its arguments after a certificate came
	rebuild []string // and after one went
	bundle  string   // all of them, as programs read them
}
