package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
)

// calls are the calls that a connection made to the agent.
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) bound(method string, b wire.Bound) wire.Bound {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, method)
	return b
}

func (c *calls) count(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(c.list), func(m string) bool { return m != method }))
}

// wantStaged checks that the machine has the artifact.
func (m *winrmMachine) wantStaged(t testing.TB, src steps.Source) {
	t.Helper()
	path := filepath.Join(m.drive, "data", "blobs", src.SHA256)
	if have, err := fileDigest(path); err != nil || have != src.SHA256 {
		t.Errorf("staged: %s, %v, want %s", have, err, src.SHA256)
	}
}

// TestWinRMFetch: the machine fetches artifacts from the controller, an empty one, too, and one with a wrong digest
// is refused. Nothing of them goes through the agent's input.
func TestWinRMFetch(t *testing.T) {
	m := newWinRM(t)
	m.place(t)
	var made calls
	c := m.config(m.Addr)
	c.Bounds = made.bound
	conn := m.dial(t, c)
	large, empty := artifact(t, 3<<20), artifact(t, 0)
	var last int64
	for _, src := range []steps.Source{large, empty} {
		if err := stage(t.Context(), conn, src, func(done, _ int64) { last = done }); err != nil {
			t.Fatal(err)
		}
		m.wantStaged(t, src)
	}
	bad := artifact(t, 1<<20)
	bad.SHA256 = strings.Repeat("0", 64)
	var de *host.DigestError
	if err := stage(t.Context(), conn, bad, nil); !errors.As(err, &de) {
		t.Fatalf("%v, want a DigestError", err)
	}
	if last != 3<<20 || made.count(wire.MethodBlobFetch) != 2 || made.count(wire.MethodBlobPart) != 0 {
		t.Errorf("progress %d, %d fetches, %d parts; want %d, 2, 0", last, made.count(wire.MethodBlobFetch),
			made.count(wire.MethodBlobPart), 3<<20)
	}
}

// TestWinRMFetchUnreachable: where the machine cannot connect to the controller, it is asked for that once; artifacts
// go through the agent.
func TestWinRMFetchUnreachable(t *testing.T) {
	m := newWinRM(t)
	m.place(t)
	var made calls
	c := m.config(m.Addr)
	c.Bounds = made.bound
	conn := m.dial(t, c)
	// The port takes connections of another machine only, as behind address translation.
	conn.(*winrmConn).path.remote = "192.0.2.1:5986"
	for _, size := range []int{1 << 20, 100} {
		src := artifact(t, size)
		if err := stage(t.Context(), conn, src, nil); err != nil {
			t.Fatal(err)
		}
		m.wantStaged(t, src)
	}
	if made.count(wire.MethodBlobFetch) != 1 || made.count(wire.MethodBlobPart) < 5 {
		t.Errorf("%d fetches and %d parts, want 1 and 5 or more", made.count(wire.MethodBlobFetch),
			made.count(wire.MethodBlobPart))
	}
}

// TestWinRMFetchResumes: what an earlier run left of an artifact is not sent again, whichever way it takes, unless it
// is not the beginning of the artifact.
func TestWinRMFetchResumes(t *testing.T) {
	const size, left = 12 << 20, 10 << 20
	for name, tt := range map[string]struct {
		remote string // "" = the machine fetches
		change byte
		from   int64
	}{
		"fetched":          {"", 0, left - wire.InFlight},
		"in parts":         {"192.0.2.1:5986", 0, left - wire.InFlight},
		"fetched, damaged": {"", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newWinRM(t)
			m.place(t)
			src := artifact(t, size)
			b, err := os.ReadFile(src.File)
			if err != nil {
				t.Fatal(err)
			}
			b[0] += tt.change
			folder := filepath.Join(m.drive, "data", "blobs")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			writeText(t, filepath.Join(folder, src.SHA256+".part"), string(b[:left]))
			conn := m.dial(t, m.config(m.Addr))
			if tt.remote != "" {
				conn.(*winrmConn).path.remote = tt.remote
			}
			first := int64(-1)
			if err := stage(t.Context(), conn, src, func(done, _ int64) {
				if first < 0 {
					first = done
				}
			}); err != nil {
				t.Fatal(err)
			}
			m.wantStaged(t, src)
			if first <= tt.from || tt.from == 0 && first >= left-wire.InFlight {
				t.Errorf("the first progress is %d bytes, want those after %d", first, tt.from)
			}
		})
	}
}

// TestSupplier: the port gives an artifact once, to who shows the token over TLS. Others get nothing, and do not keep
// the agent from it.
func TestSupplier(t *testing.T) {
	local := netip.MustParseAddrPort("127.0.0.1:0")
	s, err := newSupplier(t.Context(), local, local)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.supply(t.Context(), "the token", strings.NewReader("the artifact")) }()
	get := func(token string) string {
		conn, err := tls.Dial("tcp", s.listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, token)
		b, _ := io.ReadAll(conn)
		return string(b)
	}
	for _, wrong := range []string{"the tokem", "THE TOKEN"} {
		if have := get(wrong); have != "" {
			t.Errorf("token %q gives %q", wrong, have)
		}
	}
	if have := get("the token"); have != "the artifact" {
		t.Errorf("have %q", have)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	_ = s.listener.Close()

	if s, err = newSupplier(t.Context(), local, netip.MustParseAddrPort("192.0.2.1:1")); err != nil {
		t.Fatal(err)
	}
	ctx, over := context.WithCancel(t.Context())
	var sent bytes.Buffer
	go func() { served <- s.supply(ctx, "the token", io.TeeReader(strings.NewReader("x"), &sent)) }()
	if conn, err := tls.Dial("tcp", s.listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}); err == nil {
		_ = conn.Close()
		t.Error("another machine may connect")
	}
	over()
	if err := <-served; err == nil || sent.Len() != 0 {
		t.Errorf("%v, %d bytes were sent", err, sent.Len())
	}
}
