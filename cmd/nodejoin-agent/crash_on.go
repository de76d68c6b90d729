//go:build crashtest

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"nodejoin/steps/host"
)

// crashing is a host whose process ends at once, without cleaning up, when its Nth mutating
// call returns. N is what the file crash-after in nodejoin's folder says; without that file the
// host is as it is. The file goes with the process, so that the next one lives; the file
// crashed then has the calls of the process, one a line. The acceptance tests alone build the agent with
// this.
func crashing(h host.Host, dataDir string) host.Host {
	order := filepath.Join(dataDir, "crash-after")
	text, err := os.ReadFile(order)
	if errors.Is(err, fs.ErrNotExist) {
		return h
	}
	n, errN := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err := errors.Join(err, errN); err != nil {
		fmt.Fprintln(os.Stderr, "nodejoin-agent: read", order+":", err)
		os.Exit(3)
	}
	var mu sync.Mutex
	var calls []string
	return host.Around(h, func(op, subject string, call func() error) error {
		err := call()
		mu.Lock()
		defer mu.Unlock()
		if calls = append(calls, op+" "+subject); int64(len(calls)) != n {
			return err
		}
		note := filepath.Join(dataDir, "crashed")
		text := []byte(strings.Join(calls, "\n"))
		if err := errors.Join(os.Remove(order), os.WriteFile(note, text, 0o600)); err != nil {
			fmt.Fprintln(os.Stderr, "nodejoin-agent:", err)
		}
		os.Exit(137)
		return nil
	})
}
