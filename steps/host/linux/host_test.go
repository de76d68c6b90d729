//go:build linux

package linux

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
	"nodejoin/steps/host/hosttest"
)

// The first argument makes the test program one that a test runs as a service.
const (
	serveArg    = "nodejoin-test-serve"    // ends when asked to
	stubbornArg = "nodejoin-test-stubborn" // does not
	exitArg     = "nodejoin-test-exit"     // ends at once with code 3
	startArg    = "nodejoin-test-start"    // starts service [2] of data folder [1] and ends
	printArg    = "nodejoin-test-print"    // prints the first folder of its PATH and ends with code 3
	reportArg   = "nodejoin-test-report"   // prints its surroundings, then serves
)

// programLimit ends a test's program that nobody stopped.
const programLimit = 5 * time.Minute

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case serveArg, stubbornArg:
			os.Exit(serve(os.Args[1] == serveArg))
		case reportArg:
			report()
			os.Exit(serve(true))
		case printArg:
			first, _, _ := strings.Cut(os.Getenv("PATH"), ":")
			fmt.Println(first)
			fmt.Fprintln(os.Stderr, "end")
			os.Exit(3)
		case exitArg:
			os.Exit(3)
		case startArg:
			os.Exit(startOnly(os.Args[2], os.Args[3]))
		}
	}
	os.Exit(m.Run())
}

func serve(obedient bool) int {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	limit := time.After(programLimit)
	for {
		select {
		case <-told:
			if obedient {
				return 0
			}
		case <-limit:
			return 1
		}
	}
}

// newHost is a machine whose services nodejoin runs itself.
func newHost(t *testing.T) *Host { return openHost(t, true) }

func openHost(t *testing.T, supervisor bool) *Host {
	t.Helper()
	dir := t.TempDir()
	h, err := New(Options{DataDir: filepath.Join(dir, "data"), EnvFile: filepath.Join(dir, "environment"),
		Supervisor: supervisor})
	if err != nil {
		t.Fatal(err)
	}
	if supervisor {
		h.trust = []trustStore{ownTrust(t, dir)}
	}
	return h
}

// ownTrust is a store of authorities in a folder, so that tests leave the machine's alone.
func ownTrust(t *testing.T, dir string) trustStore {
	t.Helper()
	s := trustStore{anchors: filepath.Join(dir, "anchors"), program: filepath.Join(dir, "update"),
		update: []string{"first"}, bundle: filepath.Join(dir, "bundle.pem")}
	s.rebuild = s.update
	script := fmt.Sprintf("#!/bin/sh\nset -e\n[ \"$1\" = first ]\ncat %s/*.crt /dev/null > %s.new 2>/dev/null || "+
		"true\nmv %[2]s.new %[2]s\n", s.anchors, s.bundle)
	if err := errors.Join(os.Mkdir(s.anchors, 0o755), os.WriteFile(s.program, []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	return s
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// writableSysctl is a parameter that every kernel has, with its current value.
func writableSysctl(t *testing.T) string {
	t.Helper()
	const name, path = "vm.overcommit_memory", "/proc/sys/vm/overcommit_memory"
	if err := unix.Access(path, unix.W_OK); err != nil {
		t.Skipf("%s: %v", path, err)
	}
	return name
}

// presentModules are modules that work here: the kernel shows what they bring.
func presentModules(t *testing.T) []string {
	t.Helper()
	var out []string
	for name, trace := range map[string]string{"br_netfilter": moduleTraces["br_netfilter"],
		"overlay": "/sys/module/overlay", "vxlan": "/sys/module/vxlan"} {
		if _, err := os.Stat(trace); err == nil {
			out = append(out, name)
		}
	}
	return out
}

func TestConformance(t *testing.T) { conformance(t, newHost) }

func conformance(t *testing.T, open func(t *testing.T) *Host) {
	hosttest.Run(t, func(t *testing.T) hosttest.Fixture {
		dir := t.TempDir()
		return hosttest.Fixture{
			Host: open(t), Dir: dir, Program: []string{self(t), serveArg},
			Once: func(t *testing.T) (host.Program, string) {
				return host.Program{Command: []string{self(t), printArg}, PathFirst: "/srv/first"}, "/srv/first\nend\n"
			},
			Endless:    []string{self(t), stubbornArg},
			AbsentPipe: filepath.Join(dir, "no.sock"),
			Sysctl:     writableSysctl(t), Modules: presentModules(t), Trust: true,
			HTTP: func(t *testing.T) (string, int, func()) {
				server := httptest.NewServer(http.NotFoundHandler())
				t.Cleanup(server.Close)
				return server.URL + "/healthz", http.StatusNotFound, server.Close
			},
			Pipe: func(t *testing.T) (string, func()) {
				path := filepath.Join(dir, "s.sock")
				l, err := net.Listen("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
				done := make(chan struct{})
				go func() { defer close(done); _ = server.Serve(l) }()
				stop := func() { _ = server.Close(); <-done }
				t.Cleanup(stop)
				return "unix://" + path, stop
			},
		}
	})
}
