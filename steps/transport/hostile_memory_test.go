package transport_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// most is how much of the controller's memory one reply may use, in bytes.
const most = 100 << 20

// TestHostileMemory: the largest reply that the controller reads uses bounded memory, whatever it contains.
func TestHostileMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // as in the program
	req := executor.Request{Node: "evil"}
	for i := range 300 { // enough to raise the bounds to their maximum
		req.Steps = append(req.Steps, steps.Spec{ID: fmt.Sprintf("d%d", i), Kind: "directory",
			Args: steps.MustArgs(&kinds.Directory{Path: "/x"})})
	}
	b := wire.Check.Bound(req)
	text := strings.Repeat("x", b.Bytes/300-200)
	long := make([]string, 300)
	for i := range long {
		long[i] = fmt.Sprintf(`{"id":"d%d","change":{"action":"create","diffs":[{"name":"content","have":"%s"}]}}`, i, text)
	}
	facts := `"facts":{"os":"linux"}`
	for _, c := range []struct{ name, result string }{
		{"empty results", `{` + facts + `,"results":[` + strings.Repeat("{},", b.Values/2-10) + `{}]}`},
		{"results with everything", `{` + facts + `,"results":[` +
			strings.Repeat(`{"change":{"diffs":[{},{},{}],"touches":[{},{}],"outputs":{"a":""}}},`, b.Values/18-10) + `{}]}`},
		{"long texts", `{` + facts + `,"results":[` + strings.Join(long, ",") + `]}`},
		{"unknown fields", `{"x":[` + strings.Repeat(`{"y":1},`, b.Values/2-10) + `1]}`},
		{"escapes", `{"results":[{"id":"` + strings.Repeat(`\u001b`, b.Bytes/6-100) + `"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dial := transport.Hostile(t, func(s gssh.Session, digest string) {
				_, _ = io.WriteString(s, note("hello", wire.Hello{Digest: digest}))
				ch := wire.NewChannel(s, s)
				if _, err := ch.Recv(); err == nil {
					line(`{"jsonrpc":"2.0","id":1,"result":`)("", s)
					for part := c.result; part != ""; { // without a copy of the whole
						n := min(len(part), 32<<10)
						if _, err := io.WriteString(s, part[:n]); err != nil {
							return
						}
						part = part[n:]
					}
					_, _ = io.WriteString(s, "}\n")
				}
				_, _ = ch.Recv()
			}, nil)
			conn, err := dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			peak := peakOf(func() { _, err = transport.Do(t.Context(), conn, wire.Check, req, nil) })
			_ = conn.Close()
			t.Logf("%d bytes took at most %d MiB; %.100v", len(c.result), peak>>20, err)
			if peak > most {
				t.Errorf("a reply of %d bytes took %d MiB", len(c.result), peak>>20)
			}
			if err != nil && len(c.result) > b.Bytes && !strings.Contains(err.Error(), distrust) {
				t.Error(err)
			}
		})
	}
}

// peakOf is the largest growth of the heap while f runs, in bytes.
func peakOf(f func()) uint64 {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	base, peak := heap(), uint64(0)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if h := heap(); h > base {
				peak = max(peak, h-base)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	f()
	stop()
	<-done
	return peak
}
