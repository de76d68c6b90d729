package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"

	"nodejoin/steps"
)

// Self returns a function that finds the program nodejoin for a node that follows a plan: the one that runs, if it is
// for the node's platform. A sandbox runs no programs and gets a small stand-in.
func Self() func(os, arch, connection string) (steps.Source, error) {
	var own steps.Source
	return func(goos, arch, connection string) (steps.Source, error) {
		switch {
		case connection == "sandbox":
			return sandboxAgent()
		case goos != runtime.GOOS || arch != runtime.GOARCH:
			return steps.Source{}, fmt.Errorf("the one that runs is for %s/%s", runtime.GOOS, runtime.GOARCH)
		case own.File != "":
			return own, nil
		}
		path, err := os.Executable()
		if err != nil {
			return steps.Source{}, err
		}
		in, err := os.Open(path)
		if err != nil {
			return steps.Source{}, err
		}
		defer func() { _ = in.Close() }() // it was only read
		sum := sha256.New()
		if _, err := io.Copy(sum, in); err != nil {
			return steps.Source{}, err
		}
		own = steps.Source{File: path, SHA256: hex.EncodeToString(sum.Sum(nil))}
		return own, nil
	}
}
