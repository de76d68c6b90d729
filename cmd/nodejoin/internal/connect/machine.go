package connect

import (
	"context"

	"nodejoin/steps/host"
)

// Machine is the machine that this process runs on.
type Machine interface {
	host.Host
	// DeleteOwnService unregisters the service that this process runs as.
	DeleteOwnService(ctx context.Context, name string) error
}
