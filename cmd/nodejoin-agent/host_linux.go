package main

import (
	"context"

	"nodejoin/steps/host"
	"nodejoin/steps/host/linux"
)

// native opens this machine; dataDir "" is its default, which is told.
func native(dataDir string) (host.Host, string, error) {
	h, err := linux.New(linux.Options{DataDir: dataDir})
	if err != nil || dataDir != "" {
		return h, dataDir, err
	}
	f, err := h.Facts(context.Background())
	return h, f.DataDir, err
}
