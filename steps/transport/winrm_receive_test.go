package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nodejoin/steps/transport/agent"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/winrmtest"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/transport/wsman"
)

// TestWinRMReceivers: a large artifact goes to as many programs as the machine starts, and their shells end with it;
// where it starts none, it goes through the agent.
func TestWinRMReceivers(t *testing.T) {
	for name, tt := range map[string]struct {
		shells int // most that the machine opens; 0 = any number
		want   int64
	}{"all": {0, 3}, "some": {3, 2}, "none": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			var started atomic.Int64
			m := newWinRM(t, func(run winrmtest.Run) winrmtest.Run {
				return func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
					if strings.Contains(line, " receive ") {
						started.Add(1)
					}
					return run(ctx, line, in, out, errs)
				}
			})
			m.MaxShells = tt.shells
			m.place(t)
			var made calls
			c := m.config(m.Addr)
			c.Bounds = made.bound
			conn := m.dial(t, c)
			conn.(*winrmConn).unreached = true
			src := artifact(t, 5<<20+7)
			last := int64(0)
			if err := stage(t.Context(), conn, src, func(done, _ int64) { last = done }); err != nil {
				t.Fatal(err)
			}
			m.wantStaged(t, src)
			if started.Load() != tt.want || (made.count(wire.MethodBlobPart) > 0) != (tt.want == 0) || last != 5<<20+7 {
				t.Errorf("%d programs, %d parts through the agent, progress %d; want %d programs", started.Load(),
					made.count(wire.MethodBlobPart), last, tt.want)
			}
			if n := m.Shells(); n != 1 {
				t.Errorf("%d shells are open, want that of the agent", n)
			}
		})
	}
}

// TestReceiversFor: a machine far away gets more programs, but none gets less than four parts.
func TestReceiversFor(t *testing.T) {
	for _, tt := range []struct {
		parts int64
		trip  time.Duration
		want  int64
	}{{8, 0, 2}, {13, 0, 3}, {450, 0, 3}, {450, time.Millisecond, 3}, {450, 9 * time.Millisecond, 5},
		{450, 50 * time.Millisecond, 10}, {450, time.Second, 10}, {21, time.Second, 5}} {
		if have := receiversFor(tt.parts, tt.trip); have != tt.want {
			t.Errorf("%d parts, %s: %d, want %d", tt.parts, tt.trip, have, tt.want)
		}
	}
	if mostReceivers*2*wsman.Chunk > wire.InFlight {
		t.Errorf("more is under way than the %d bytes that are sent again after a cut", wire.InFlight)
	}
}

// TestWinRMReceiversFar: a machine that answers after 50 ms has more programs than one that answers at once.
func TestWinRMReceiversFar(t *testing.T) {
	var started atomic.Int64
	m := newWinRM(t, func(run winrmtest.Run) winrmtest.Run {
		return func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
			if strings.Contains(line, " receive ") {
				started.Add(1)
			}
			return run(ctx, line, in, out, errs)
		}
	})
	m.place(t)
	conn := m.dial(t, m.config(sshtest.NewProxy(t, m.Addr, 25*time.Millisecond).Addr))
	conn.(*winrmConn).unreached = true
	src := artifact(t, 20<<20)
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	m.wantStaged(t, src)
	if started.Load() != mostReceivers {
		t.Errorf("%d programs, want %d", started.Load(), mostReceivers)
	}
}

// TestWinRMReceiverFails: what a program that cannot write says is the error, and the connection goes on.
func TestWinRMReceiverFails(t *testing.T) {
	m := newWinRM(t, func(run winrmtest.Run) winrmtest.Run {
		return func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
			if strings.Contains(line, " receive ") {
				_, _ = io.WriteString(errs, "there is not enough space on the disk\r\n")
				return 1
			}
			return run(ctx, line, in, out, errs)
		}
	})
	m.place(t)
	conn := m.dial(t, m.config(m.Addr))
	conn.(*winrmConn).unreached = true
	err := stage(t.Context(), conn, artifact(t, 5<<20), nil)
	if err == nil || errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), "not enough space") {
		t.Fatalf("%v, want what the program says", err)
	}
	small := artifact(t, 1000)
	if err := stage(t.Context(), conn, small, nil); err != nil {
		t.Fatal(err)
	}
	m.wantStaged(t, small)
}

// TestWinRMReceiversCut: a connection that is lost meanwhile is ErrDropped, and the next one sends the artifact.
func TestWinRMReceiversCut(t *testing.T) {
	m := newWinRM(t)
	m.place(t)
	p := sshtest.NewProxy(t, m.Addr, 0)
	src := artifact(t, 20<<20)
	conn := m.dial(t, m.config(p.Addr))
	conn.(*winrmConn).unreached = true
	err := stage(t.Context(), conn, src, func(done, _ int64) {
		if done > 8<<20 {
			p.Cut()
		}
	})
	if !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	_ = conn.Close()
	conn = m.dial(t, m.config(m.Addr))
	conn.(*winrmConn).unreached = true
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	m.wantStaged(t, src)
}

// TestReceive: parts are written where they belong, in any order; what is not a part of the artifact is refused.
func TestReceive(t *testing.T) {
	part := func(at uint64, text string) string {
		head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, at), uint32(len(text)))
		return string(head) + text
	}
	digest := strings.Repeat("a", 64)
	for name, tt := range map[string]struct{ before, in, want, refused string }{
		"in any order":  {"", part(3, "def") + part(0, "abc"), "abcdef", ""},
		"nothing":       {"abc", "", "abc", ""},
		"too long":      {"abcdefghi", part(0, "x"), "xbcdef", ""},
		"past the end":  {"", part(4, "xyz"), "", "not a part"},
		"before it":     {"", part(1<<63, "x"), "", "not a part"},
		"cut in a head": {"", part(0, "abc")[:5], "", "unexpected EOF"},
		"cut in bytes":  {"", part(0, "abc")[:14], "", "unexpected EOF"},
		"too large":     {"", part(0, "abc")[:8] + "\xff\xff\xff\xff", "", "not a part"},
	} {
		dir := t.TempDir()
		path := filepath.Join(agent.BlobDir("linux", dir), digest+".part")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if tt.before != "" {
			writeText(t, path, tt.before)
		}
		err := agent.Receive(strings.NewReader(tt.in), "linux", dir, wire.Blob{Algorithm: "sha256", Digest: digest, Size: 6})
		have, _ := os.ReadFile(path)
		if string(have) != tt.want || (err == nil) != (tt.refused == "") ||
			err != nil && !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: the file has %q, %v; want %q, %q", name, have, err, tt.want, tt.refused)
		}
	}
	if agent.Receive(strings.NewReader(""), "linux", t.TempDir(), wire.Blob{Algorithm: "sha256", Digest: "../x"}) == nil {
		t.Error("a name that is not a digest is accepted")
	}
}

// TestReceiveHoldsNothing: a program that waits for parts does not hold the file open, which Windows would not rename
// then.
func TestReceiveHoldsNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	dir, digest := t.TempDir(), strings.Repeat("a", 64)
	path := filepath.Join(agent.BlobDir("linux", dir), digest+".part")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- agent.Receive(in, "linux", dir, wire.Blob{Algorithm: "sha256", Digest: digest, Size: 6})
	}()
	frame := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, 0), 3)
	if _, err := out.Write(append(frame, "abc"...)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		have, _ := os.ReadFile(path)
		if string(have) == "abc" && !isOpen(t, path) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after 10s the file has %q, or is still open", have)
		}
	}
	if err := errors.Join(out.Close(), <-done); err != nil {
		t.Error(err)
	}
}

// isOpen reports whether this process has a file open.
func isOpen(t *testing.T, path string) bool {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(e os.DirEntry) bool {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		return to == path
	})
}
