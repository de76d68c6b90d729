package main

import (
	"nodejoin/steps/host"
	"nodejoin/steps/host/windows"
)

// native opens this machine.
func native(dataDir string) (host.Host, error) { return windows.New(windows.Options{DataDir: dataDir}) }
