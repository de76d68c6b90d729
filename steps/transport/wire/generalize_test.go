package wire

import (
	"testing"

	"nodejoin/steps/generalize"
)

// TestImageIsSearched: a machine that was not searched is no image, and one with something left need not be.
func TestImageIsSearched(t *testing.T) {
	left := []generalize.Found{{Path: "/x", What: generalize.Whats[0]}}
	for _, c := range []struct {
		req   generalize.Request
		reply generalize.Reply
		ok    bool
	}{
		{generalize.Request{}, generalize.Reply{}, false},
		{generalize.Request{}, generalize.Reply{Files: 1}, true},
		{generalize.Request{}, generalize.Reply{Left: left}, true},
		{generalize.Request{}, generalize.Reply{Files: -1, Left: left}, false},
		{generalize.Request{Check: true}, generalize.Reply{}, true},
	} {
		if err := Generalize.Verify(c.req, c.reply); (err == nil) != c.ok {
			t.Errorf("%+v, %+v: %v", c.req, c.reply, err)
		}
	}
}
