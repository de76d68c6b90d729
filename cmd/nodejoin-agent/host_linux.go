package main

import (
	"nodejoin/steps/host"
	"nodejoin/steps/host/linux"
)

// native opens this machine.
func native(dataDir string) (host.Host, error) { return linux.New(linux.Options{DataDir: dataDir}) }

// feature is for Windows.
func feature([]string) int { return 3 }
