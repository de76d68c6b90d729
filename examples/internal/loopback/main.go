//go:build windows

// Loopback adds a loopback adapter with an address to this machine, for a join whose networks touch no real adapter:
//
//	go run ./examples/internal/loopback ADDRESS MASK
//
// The adapter stays.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"nodejoin/steps/host/windows"
	"nodejoin/steps/selftest/loopback"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "loopback:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return errors.New("want ADDRESS and MASK")
	}
	h, err := windows.New(windows.Options{DataDir: os.TempDir()})
	if err != nil {
		return err
	}
	name, _, err := loopback.Add(context.Background(), h, os.Args[1], os.Args[2])
	if err != nil {
		return err
	}
	fmt.Println(name)
	return nil
}
