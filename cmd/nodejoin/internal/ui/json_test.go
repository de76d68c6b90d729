package ui

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"nodejoin/steps/event"
)

// TestJSONStreams: each event can be read before the next one happens.
func TestJSONStreams(t *testing.T) {
	r, w := io.Pipe() // a write ends when it was read
	next := make(chan struct{})
	go func() {
		defer func() { _ = w.Close() }() // it has no error
		j := NewJSON(w, "0.1.0")
		for _, host := range []string{"a", "b"} {
			<-next
			j.Emit(event.HostState{Host: host, State: "done"})
		}
		<-next
		j.Last(map[string]string{"type": "summary"})
	}()
	lines := bufio.NewReader(r)
	for i, want := range []string{`"type":"version"`, `"host":"a"`, `"host":"b"`, `"type":"summary"`} {
		if i > 0 {
			next <- struct{}{}
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, want) {
			t.Fatalf("%q, %v; want %s", line, err, want)
		}
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}
