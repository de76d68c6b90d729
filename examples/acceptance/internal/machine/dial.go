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
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		conn, err := m.dialHere(ctx, network, address)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// dialHere moves the thread into the machine's network namespace. The socket is made on
// it by hand: package net may use another thread.
func (m *Machine) dialHere(ctx context.Context, network, address string) (net.Conn, error) {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid))
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	to, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
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
