package transport

import (
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// quickAck asks the kernel after every read not to delay the next acknowledgement:
// OpenSSH sends small packets one by one during the handshake with Nagle's
// algorithm on, and each would wait for the delayed acknowledgement (40 ms). The
// kernel drops the option by itself (tcp(7)), hence after every read.
func quickAck(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	return &quick{TCPConn: tcp, raw: raw}
}

type quick struct {
	*net.TCPConn
	raw syscall.RawConn
}

func (q *quick) Read(p []byte) (int, error) {
	n, err := q.TCPConn.Read(p)
	_ = q.raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
	return n, err
}

// roundTrip is the shortest round trip that the kernel saw, which a busy program on either side does not make longer
// (tcpi_min_rtt of linux/tcp.h, in microseconds, since Linux 4.6). Where that is not known it is how long connecting
// took.
func roundTrip(c net.Conn, connecting time.Duration) time.Duration {
	q, ok := c.(*quick)
	if !ok {
		return connecting
	}
	took := connecting
	_ = q.raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil &&
			info.Min_rtt != 0 && info.Min_rtt != math.MaxUint32 { // an older kernel, or none was seen
			took = time.Duration(info.Min_rtt) * time.Microsecond
		}
	})
	return took
}
