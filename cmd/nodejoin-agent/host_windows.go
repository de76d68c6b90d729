package main

import (
	"os"

	"nodejoin/steps/host"
	"nodejoin/steps/host/windows"
)

// native opens this machine.
func native(dataDir string) (host.Host, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return windows.New(windows.Options{DataDir: dataDir, FeatureService: []string{program, windows.FeatureCommand}})
}

// feature changes a feature of Windows, as a service.
func feature(args []string) int { return windows.FeatureService(args) }
