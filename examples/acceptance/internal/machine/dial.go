package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial connects from within the machine's network.
func (m *Machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return nil, err
	}
	fd, err := m.socket()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	target := &unix.SockaddrInet4{Port: to.Port}
	copy(target.Addr[:], to.IP.To4())
	if err := unix.Connect(fd, target); err != nil {
		return nil, err
	}
	conn, err := net.FileConn(f)
	return conn, errors.Join(err, context.Cause(ctx))
}

// socket creates a socket in the machine's network namespace, to which it belongs from then
// on. The thread comes back from there and lives on: the programs that it has started are to
// be killed when it ends (prctl(2), PR_SET_PDEATHSIG), and may be a whole control plane.
func (m *Machine) socket() (fd int, err error) {
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid))
	if err != nil {
		return -1, err
	}
	defer there.Close()
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return -1, err
	}
	defer here.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return -1, err
	}
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
		return fd, errors.Join(err, back) // the thread stays locked: nothing else may run in that namespace
	}
	runtime.UnlockOSThread()
	return fd, err
}
