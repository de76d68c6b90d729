package sandbox

import (
	"testing"
	"time"
)

// A machine booted before the first run that looks at it, and does not boot between runs.
func TestANewMachineWasUp(t *testing.T) {
	dir, start := t.TempDir(), time.Now()
	var boot time.Time
	for range 2 {
		h, err := Open(t.Context(), Config{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		f, err := h.Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !f.BootTime.Before(start.Truncate(time.Second)) || !boot.IsZero() && !f.BootTime.Equal(boot) {
			t.Errorf("booted at %s, before at %s; the test began at %s", f.BootTime, boot, start)
		}
		boot = f.BootTime
	}
}
