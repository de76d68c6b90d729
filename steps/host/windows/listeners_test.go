//go:build windows

package windows

import (
	"net"
	"os"
	"slices"
	"testing"

	"nodejoin/steps/host"
)

// TestListenerHasItsProcess: a port in use comes with the process that listens at it. Wine's server holds all sockets
// of a machine, and there no process is known: 0.
func TestListenerHasItsProcess(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	list, err := newHost(t).Listeners(t.Context())
	i := slices.IndexFunc(list, func(x host.Listener) bool { return x.Protocol == "tcp" && int(x.Port) == port })
	want := os.Getpid()
	if underWine() {
		want = 0
	}
	if err != nil || i < 0 || list[i].PID != want {
		t.Errorf("port %d, process %d: %v, %v", port, want, list, err)
	}
}
