//go:build windows

package windows

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	winio "github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
	"nodejoin/steps/host/hosttest"
)

func TestConformance(t *testing.T) {
	wine := underWine()
	hosttest.Run(t, func(t *testing.T) hosttest.Fixture {
		h := newHost(t)
		_, err := h.FirewallRule(t.Context(), "nodejoin-test-absent")
		_, noPorts := h.DynamicPorts(t.Context(), "tcp")
		dir := tempDir(t)
		program := serviceProgram(t)
		feature := "" // on a real machine none is touched
		if wine {
			feature = "Microsoft-Hyper-V" // of the stand-in of the DISM API
		}
		return hosttest.Fixture{
			Host: h, Dir: dir, Program: []string{program, serviceArg, "runs"},
			Once: func(*testing.T) (host.Program, string) {
				return host.Program{Command: []string{program, printArg}, PathFirst: `C:\first`}, "C:\\first\nend\n"
			},
			Endless:           []string{program, sleepArg},
			NoDependencyStart: wine,
			Rename:            wine, RenamedAtOnce: wine, // elsewhere a machine would stay renamed if a test is killed
			Feature: feature, FeaturesUntried: !wine, Notes: wine,
			Registry: true, Trust: true, Firewall: !errors.Is(err, host.ErrUnsupported),
			Ports: wine || !errors.Is(noPorts, host.ErrUnsupported),
			HTTP:  httpServer, Pipe: pipeServer, AbsentPipe: `\\.\pipe\nodejoin-test-absent`,
		}
	})
}

// underWine reports whether this is Wine, which has an export that Windows lacks.
func underWine() bool { return wineVersion.Find() == nil }

func httpServer(t *testing.T) (string, int, func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	})}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return fmt.Sprintf("http://%s/healthz", l.Addr()), http.StatusTeapot, func() {
		if err := errors.Join(s.Close(), ignoreClosed(<-done)); err != nil {
			t.Error(err)
		}
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func pipeServer(t *testing.T) (string, func()) {
	address := fmt.Sprintf(`\\.\pipe\nodejoin-test-%d`, time.Now().UnixNano())
	l, err := winio.ListenPipe(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return address, func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-done
	}
}

// serviceProgram is a copy of this test program that services run from: a running
// program cannot be replaced or removed.
func serviceProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(tempDir(t), "service.exe")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

var wineVersion = windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version")
