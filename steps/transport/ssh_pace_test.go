package transport

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaced: a machine nearby holds little back, also while it is busy and until the program reads; a far one gets all
// at once when the program reads, and so does one that does not reply, or only late.
func TestPaced(t *testing.T) {
	const total, part = 4 << 20, 32 << 10
	const fast, slow = time.Millisecond, 50 * time.Millisecond
	for name, c := range map[string]struct {
		near  bool
		taken time.Duration
		reply []time.Duration // the last one is that of all that follow
		most  int             // bytes for which there is no reply yet
		takes time.Duration   // at most
	}{
		"near":              {true, 0, []time.Duration{fast}, paceEvery, 64 * fast},
		"near, and busy":    {true, 0, []time.Duration{slow, slow, fast, slow}, paceEvery, 64 * slow},
		"near, reads late":  {true, 900 * time.Millisecond, []time.Duration{fast}, paceEvery, time.Second},
		"a forwarded port":  {true, slow, []time.Duration{slow}, total, (paceProbes + 1) * slow},
		"far":               {false, slow, []time.Duration{slow}, total, slow},
		"no reply":          {true, 0, []time.Duration{time.Hour}, total, paceTries * paceWait},
		"nothing is read":   {true, time.Hour, []time.Duration{time.Hour}, total, paceTries * paceWait},
		"far, nothing read": {false, time.Hour, []time.Duration{time.Hour}, total, paceTries * paceWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				written, replied, asked := 0, 0, 0
				taken := make(chan struct{})
				begun := time.Now()
				time.AfterFunc(c.taken, func() {
					replied = paceEvery
					close(taken)
				})
				p := &paced{Writer: io.Discard, near: c.near, taken: taken, begin: func(f func()) { go f() }}
				p.ask = func() {
					at := written
					d := c.reply[min(asked, len(c.reply)-1)]
					asked++
					time.Sleep(d)
					replied = at
				}
				for written < total {
					written += part
					if held := written - replied; held > c.most+part {
						t.Fatalf("%d bytes are held back", held)
					}
					if waited := min(c.taken, paceWait); written > paceEvery+part && time.Since(begun) < waited {
						t.Fatalf("%d bytes were written within %s, before the program reads", written, waited)
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
