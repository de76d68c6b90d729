package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("bound")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, why)
		defer cancel()
		var looks []time.Duration
		start := time.Now()
		err := Until(ctx, time.Second, func() (bool, error) {
			looks = append(looks, time.Since(start))
			return len(looks) == 20, nil
		})
		if !errors.Is(err, why) || time.Since(start) != 10*time.Second || looks[0] != 0 || looks[1] != first {
			t.Errorf("%v after %v, looks at %v", err, time.Since(start), looks)
		}
		for i := 1; i < len(looks); i++ {
			if pause := looks[i] - looks[i-1]; pause > time.Second {
				t.Errorf("a pause of %v", pause)
			}
		}
		looks = nil
		start = time.Now()
		if err := Until(t.Context(), first/5, func() (bool, error) {
			looks = append(looks, time.Since(start))
			return len(looks) == 3, nil
		}); err != nil || looks[1] != first/5 || looks[2] != 2*first/5 {
			t.Errorf("%v, looks at %v, want pauses of %v", err, looks, first/5)
		}
		broken := errors.New("broken")
		if err := Until(ctx, time.Second, func() (bool, error) { return false, broken }); !errors.Is(err, broken) {
			t.Errorf("%v, want the error of the look", err)
		}
		// Also after its context has ended it looks once.
		if err := Until(ctx, time.Second, func() (bool, error) { return true, nil }); err != nil {
			t.Error(err)
		}
	})
}
