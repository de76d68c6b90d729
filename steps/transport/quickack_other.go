//go:build !linux

package transport

import (
	"net"
	"time"
)

// quickAck changes nothing where the kernel has no such option.
func quickAck(c net.Conn) net.Conn { return c }

// roundTrip is how long connecting took.
func roundTrip(_ net.Conn, connecting time.Duration) time.Duration { return connecting }
