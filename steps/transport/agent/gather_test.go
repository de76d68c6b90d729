package agent

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps/transport/wire"
)

// writes keeps what was written, one text for each write.
type writes struct {
	texts  []string
	fails  error
	closed bool
}

func (w *writes) Write(p []byte) (int, error) {
	w.texts = append(w.texts, string(p))
	return len(p), w.fails
}

func (w *writes) Close() error { w.closed = true; return nil }

// TestGather: events go out with the reply that follows them, or soon; other messages at once.
func TestGather(t *testing.T) {
	const one, two = `{"jsonrpc":"2.0","method":"event","params":1}`, `{"jsonrpc":"2.0","method":"event","params":2}`
	const reply = `{"jsonrpc":"2.0","id":1,"result":{}}`
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		c := wire.NewChannel(nil, &gather{to: w})
		send := func(texts ...string) {
			for _, text := range texts {
				if err := c.Send([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
		}
		send(reply, one, two, reply, one)
		if want := []string{reply + "\n", one + "\n" + two + "\n" + reply + "\n"}; !slices.Equal(w.texts, want) {
			t.Errorf("written at once: %q", w.texts)
		}
		time.Sleep(gatherFor)
		synctest.Wait()
		if want := one + "\n"; len(w.texts) != 3 || w.texts[2] != want {
			t.Errorf("written soon: %q", w.texts)
		}
		send(two)
		if err := c.Close(); err != nil || !w.closed || len(w.texts) != 4 || w.texts[3] != two+"\n" {
			t.Errorf("at the end: %q, %v", w.texts, err)
		}

		g := &gather{to: &writes{fails: io.ErrClosedPipe}}
		if _, err := g.Write([]byte(one + "\n")); err != nil {
			t.Error(err)
		}
		time.Sleep(gatherFor)
		synctest.Wait()
		if _, err := g.Write([]byte(one + "\n")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after a failed write: %v", err)
		}
	})
}
