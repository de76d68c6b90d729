package main

import (
	"log"
	"net"
	"os"
	"sync"
	"time"
)

// switchFile exists while an adapter has a virtual switch (wine/adapters.c).
const switchFile = `C:\windows\switch-stand-in`

// switchLook is how often it looks whether there is a switch.
const switchLook = 50 * time.Millisecond

// cutListener resets all its connections when a virtual switch is made or goes: the address
// is taken from the machine then.
type cutListener struct {
	net.Listener
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func cutBySwitch(l net.Listener) net.Listener {
	c := &cutListener{Listener: l, conns: map[net.Conn]struct{}{}}
	go c.watch() // as long as the program
	return c
}

func (l *cutListener) watch() {
	had := switchExists()
	for range time.Tick(switchLook) {
		has := switchExists()
		if has != had {
			l.cut()
		}
		had = has
	}
}

func switchExists() bool {
	_, err := os.Stat(switchFile)
	return err == nil
}

func (l *cutListener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if t, isTCP := c.(*net.TCPConn); isTCP {
			t.SetLinger(0)
		}
		c.Close()
	}
	clear(l.conns)
}

// Accept keeps the connection until it is closed. Those that the firewall does not admit are reset.
func (l *cutListener) Accept() (net.Conn, error) {
	c, err := l.accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return &cutConn{c, l}, nil
}

func (l *cutListener) accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		refused, err := filtered(l.Addr())
		if err != nil {
			log.Printf("firewall: %v", err)
		}
		if !refused {
			return c, nil
		}
		log.Printf("%s: no rule of the firewall admits a connection in this network", c.RemoteAddr())
		if t, isTCP := c.(*net.TCPConn); isTCP {
			t.SetLinger(0)
		}
		c.Close()
	}
}

type cutConn struct {
	net.Conn
	of *cutListener
}

func (c *cutConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c.Conn)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
