package transport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

func artifact(t testing.TB, size int) steps.Source {
	t.Helper()
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // it never fails
	sum := sha256.Sum256(b)
	return steps.Source{File: writeText(t, filepath.Join(t.TempDir(), "mirror.tar.gz"), string(b)),
		SHA256: hex.EncodeToString(sum[:])}
}

func TestStage(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	p := sshtest.NewProxy(t, m.addr, 0)
	p.CutAt = 1 << 40
	conn := m.dial(t, m.config(p.Addr))
	src := artifact(t, 3<<20)
	var last, total int64
	if err := stage(t.Context(), conn, src, func(d, n int64) { last, total = d, n }); err != nil {
		t.Fatal(err)
	}
	if last != 3<<20 || total != 3<<20 {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	blob := filepath.Join(m.dir, "blobs", src.SHA256)
	if have, err := fileDigest(blob); err != nil || have != src.SHA256 {
		t.Fatalf("staged: %s, %v", have, err)
	}
	before := p.Sent.Load()
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	if n := p.Sent.Load() - before; n > 4096 {
		t.Errorf("a staged artifact cost %d bytes", n)
	}

	bad := src
	bad.SHA256 = strings.Repeat("0", 64)
	var de *host.DigestError
	if err := stage(t.Context(), conn, bad, nil); !errors.As(err, &de) || de.Got != src.SHA256 {
		t.Fatalf("%v, want a DigestError", err)
	}
	bad.File = filepath.Join(t.TempDir(), "missing")
	if err := stage(t.Context(), conn, bad, nil); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v, want ErrNotExist", err)
	}
	left, _ := filepath.Glob(filepath.Join(m.dir, "blobs", "*"))
	if len(left) != 1 {
		t.Errorf("left: %q, want only the staged one", left)
	}

	_ = conn.Close()
	until(t, "the staged artifact is dropped", func() bool {
		left, _ := filepath.Glob(filepath.Join(m.dir, "blobs", "*"))
		return len(left) == 0
	})
}

// until polls for a condition that another process brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

func TestStageUsedIsRemoved(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	conn := m.dial(t, m.config(m.addr))
	src := artifact(t, 10)
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	req := directories(t.TempDir(), 1)
	// The step fails and its kind reads nothing: its artifact stays staged.
	req.Steps = append(req.Steps, steps.Spec{ID: "bad", Kind: "no_such_kind", Args: steps.MustArgs(src)})
	reply, err := Do(t.Context(), conn, wire.Apply, req, func(event.Event) {})
	if err != nil || reply.Failed != "bad" {
		t.Fatalf("%+v, %v", reply, err)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "blobs", src.SHA256)); err != nil {
		t.Errorf("the artifact of a failed step: %v, want it kept", err)
	}
}

func TestDropInStage(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	p := sshtest.NewProxy(t, m.addr, 0)
	p.CutAt = 2 << 20
	conn := m.dial(t, m.config(p.Addr))
	src := artifact(t, 8<<20)
	if err := stage(t.Context(), conn, src, nil); !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	_ = conn.Close()
	again := m.dial(t, m.config(m.addr))
	if err := stage(t.Context(), again, src, nil); err != nil {
		t.Fatal(err)
	}
	if have, err := fileDigest(filepath.Join(m.dir, "blobs", src.SHA256)); err != nil || have != src.SHA256 {
		t.Fatalf("staged: %s, %v", have, err)
	}
}

// TestStageResumes: a transfer that was cut continues where it ended, unless what arrived is not what was sent.
func TestStageResumes(t *testing.T) {
	const size = 24 << 20
	for name, change := range map[string]func(b []byte) []byte{
		"cut":      nil,
		"damaged":  func(b []byte) []byte { b[100]++; return b },
		"too long": func(b []byte) []byte { return append(b, make([]byte, size)...) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.place(t)
			cut := sshtest.NewProxy(t, m.addr, 0)
			cut.CutAt = 21 << 20
			src := artifact(t, size)
			conn := m.dial(t, m.config(cut.Addr))
			if err := stage(t.Context(), conn, src, nil); !errors.Is(err, ErrDropped) {
				t.Fatalf("%v, want ErrDropped", err)
			}
			_ = conn.Close()
			blob := filepath.Join(m.dir, "blobs", src.SHA256)
			if change != nil {
				b, err := os.ReadFile(blob + ".part")
				if err == nil {
					err = os.WriteFile(blob+".part", change(b), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			rest := sshtest.NewProxy(t, m.addr, 0)
			rest.CutAt = 1 << 40
			first, last := int64(-1), int64(0)
			if err := stage(t.Context(), m.dial(t, m.config(rest.Addr)), src, func(done, _ int64) {
				if last = done; first < 0 {
					first = done
				}
			}); err != nil {
				t.Fatal(err)
			}
			if have, err := fileDigest(blob); err != nil || have != src.SHA256 || last != size {
				t.Fatalf("staged: %s, %v; progress ended at %d", have, err, last)
			}
			sent, whole := rest.Sent.Load(), int64(size)
			if resumed := sent < whole*3/4; resumed != (change == nil) || resumed != (first > 1<<20) {
				t.Errorf("%d of %d bytes were sent, the first progress was %d", sent, whole, first)
			}
		})
	}
}

func TestCancelInStage(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	p := sshtest.NewProxy(t, m.addr, 0)
	conn := m.dial(t, m.config(p.Addr))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	err := stage(ctx, conn, artifact(t, 32<<20), func(done, _ int64) { cancel(why) })
	if !errors.Is(err, why) {
		t.Fatalf("%v, want the cause", err)
	}
	// The connection can still be used.
	if err := stage(t.Context(), conn, artifact(t, 1<<20), nil); err != nil {
		t.Fatal(err)
	}
}

// stage stages a file of the controller that nothing else sends.
func stage(ctx context.Context, conn Conn, src steps.Source, progress func(done, total int64)) error {
	var files Contents
	defer files.Close()
	c, err := files.Open(ctx, src)
	if err != nil {
		return err
	}
	return conn.Stage(ctx, c, progress)
}
