package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"nodejoin/steps/event"
)

// JSON writes each event as one line. The first line has the version.
type JSON struct {
	mu sync.Mutex
	w  io.Writer
}

// NewJSON starts a stream on w.
func NewJSON(w io.Writer, nodejoinVersion string) *JSON {
	fmt.Fprintf(w, `{"type":"version","format_version":%q,"nodejoin":%q}`+"\n", event.Version, nodejoinVersion)
	return &JSON{w: w}
}

// Emit writes an event.
func (j *JSON) Emit(e event.Event) {
	b, err := event.Encode(e)
	if err != nil {
		return
	}
	j.line(b)
}

// Last writes what the stream ends with.
func (j *JSON) Last(v any) {
	b, _ := json.Marshal(v)
	j.line(b)
}

func (j *JSON) line(b []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.w, "%s\n", b)
}
