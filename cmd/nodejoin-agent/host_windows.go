package main

import (
	"context"

	"nodejoin/steps/host"
	"nodejoin/steps/host/windows"
)

// native opens this machine; dataDir "" is its default, which is told.
func native(dataDir string) (host.Host, string, error) {
	h, err := windows.New(windows.Options{DataDir: dataDir})
	if err != nil || dataDir != "" {
		return h, dataDir, err
	}
	f, err := h.Facts(context.Background())
	return h, f.DataDir, err
}
