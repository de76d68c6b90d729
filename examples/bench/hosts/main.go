//go:build linux

// Hosts serves hosts for nodejoin over SSH until it gets a signal or its standard input ends: sandboxes that cost
// little, and OpenSSH servers of this machine (-real, which needs root).
//
//	go run ./examples/bench/hosts -cheap 1000
//
// The first line that it prints is JSON: the hosts, the key that they accept, and the file with theirs. Each further
// line is a mutating call that a sandbox has answered.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"nodejoin/examples/internal/farhosts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	o := farhosts.Options{}
	flag.IntVar(&o.Cheap, "cheap", 10, "hosts that are sandboxes")
	flag.IntVar(&o.Real, "real", 0, "hosts that are OpenSSH servers of this machine")
	flag.StringVar(&o.Address, "address", "127.0.0.1", "address where they listen")
	rtt := flag.Duration("rtt", 0, "round-trip time to them; 0 = that of this machine")
	flag.Parse()
	if *rtt > 0 {
		o.Link = farhosts.NewLink(*rtt, 0)
	}
	dir, err := os.MkdirTemp("", "hosts-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Dir = filepath.Join(dir, "bed")
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	o.Called = func(c farhosts.Call) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(c) // whoever does not read them does not miss them
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bed, err := farhosts.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	mu.Lock()
	err = out.Encode(struct {
		Hosts           []farhosts.Host
		Key, KnownHosts string
	}{bed.Hosts, bed.Key(), bed.KnownHosts()})
	mu.Unlock()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	<-ctx.Done()
	return nil
}
