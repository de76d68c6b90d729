package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nodejoin/steps/transport/sshtest"
)

// BenchmarkStage sends the 171 MB that a join takes to a machine, over loopback, which answers at once or after 50 ms:
// by SFTP; fetched by the machine over WinRM; and in parts through WinRM's shells.
func BenchmarkStage(b *testing.B) {
	src := artifact(b, 171e6)
	var files Contents
	b.Cleanup(files.Close)
	send := func(b *testing.B, conn Conn, folder string) {
		b.SetBytes(171e6)
		if err := stage(b.Context(), conn, artifact(b, 1), nil); err != nil { // the agent is there
			b.Fatal(err)
		}
		content, err := files.Open(b.Context(), src)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			b.StopTimer()
			_ = os.Remove(filepath.Join(folder, "blobs", src.SHA256)) // of the last turn
			b.StartTimer()
			if err := conn.Stage(b.Context(), content, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
		far := func(b *testing.B, addr string) string {
			if delay == 0 {
				return addr
			}
			return sshtest.NewProxy(b, addr, delay/2).Addr
		}
		winrm := func(b *testing.B) (*winrmMachine, Conn) {
			m := newWinRM(b)
			m.place(b)
			return m, m.dial(b, m.config(far(b, m.Addr)))
		}
		b.Run(fmt.Sprintf("SFTP, %s", delay), func(b *testing.B) {
			m := newMachine(b)
			m.place(b)
			send(b, m.dial(b, m.config(far(b, m.addr))), m.dir)
		})
		if delay == 0 { // what is fetched does not go through the link that delays
			b.Run("fetched", func(b *testing.B) {
				m, conn := winrm(b)
				send(b, conn, filepath.Join(m.drive, "data"))
			})
		}
		b.Run(fmt.Sprintf("in parts, %s", delay), func(b *testing.B) {
			m, conn := winrm(b)
			conn.(*winrmConn).unreached = true
			send(b, conn, filepath.Join(m.drive, "data"))
		})
	}
}
