package transport

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaced: a machine nearby holds little back, also while it is busy and until the program reads; a far one gets all
// at once when the program reads, and so does one that does not reply.
func TestPaced(t *testing.T) {
	const total, part = 4 << 20, 32 << 10
	for name, c := range map[string]struct {
		near         bool
		taken, reply time.Duration
		most         int           // bytes for which there is no reply yet
		takes        time.Duration // at most
	}{
		"near":             {true, 0, time.Millisecond, paceEvery, 64 * time.Millisecond},
		"near, and busy":   {true, 0, 50 * time.Millisecond, paceEvery, 64 * 50 * time.Millisecond},
		"near, reads late": {true, 900 * time.Millisecond, time.Millisecond, paceEvery, time.Second},
		"far":              {false, 50 * time.Millisecond, 50 * time.Millisecond, total, 50 * time.Millisecond},
		"no reply":         {true, 0, time.Hour, total, paceTries * paceWait},
		"nothing is read":  {true, time.Hour, time.Hour, total, paceTries * paceWait},
		"far, not read":    {false, time.Hour, time.Hour, total, paceTries * paceWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				written, replied, asked := 0, 0, 0
				taken, first := make(chan struct{}), 0
				time.AfterFunc(c.taken, func() {
					replied = first
					close(taken)
				})
				p := &paced{Writer: io.Discard, near: c.near, taken: taken, begin: func(f func()) { go f() }, ask: func() {
					at := written
					asked++
					time.Sleep(c.reply)
					replied = at
				}}
				begun := time.Now()
				for written < total {
					if written += part; written <= paceEvery {
						first = written
					}
					if held := written - replied; held > c.most+part {
						t.Fatalf("%d bytes are held back", held)
					}
					if n, err := p.Write(make([]byte, part)); n != part || err != nil {
						t.Fatal(n, err)
					}
					synctest.Wait()
				}
				if took := time.Since(begun); took > c.takes {
					t.Errorf("it took %s, want at most %s", took, c.takes)
				}
				if !c.near && asked > 0 {
					t.Errorf("a far machine was asked for %d replies", asked)
				}
				time.Sleep(2 * time.Hour) // the last reply
			})
		})
	}
}
