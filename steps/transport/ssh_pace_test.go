package transport

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaced: a server nearby holds little back, also while it is busy; a far one, and one that does not reply, get all
// at once.
func TestPaced(t *testing.T) {
	const total, part = 4 << 20, 32 << 10
	for name, c := range map[string]struct {
		reply []time.Duration // the last one is that of all that follow
		most  int             // bytes for which there is no reply yet
		takes time.Duration   // beyond the replies, at most
	}{
		"near": {reply: []time.Duration{time.Millisecond}, most: paceEvery, takes: 64 * time.Millisecond},
		"near, and busy": {reply: []time.Duration{time.Millisecond, 50 * time.Millisecond}, most: paceEvery,
			takes: 64 * 50 * time.Millisecond},
		"far":      {reply: []time.Duration{50 * time.Millisecond}, most: total, takes: paceTries * paceNear},
		"no reply": {reply: []time.Duration{time.Hour}, most: total, takes: paceTries * paceNear},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				written, replied, asked := 0, 0, 0
				p := &paced{Writer: io.Discard, begin: func(f func()) { go f() }, ask: func() {
					at := written
					d := c.reply[min(asked, len(c.reply)-1)]
					asked++
					time.Sleep(d)
					replied = at
				}}
				begun := time.Now()
				for written < total {
					written += part
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
				time.Sleep(2 * time.Hour) // the last reply
			})
		})
	}
}
