package plan

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Limits bound what compiling one plan may take. Expressions can ask for any amount of work (a for in a for in a for);
// without a limit a mistake, or a plan of somebody else, ends with the controller out of memory.
type Limits struct {
	Time   time.Duration // without that of the programs of data blocks, which have bounds of their own
	Memory uint64        // bytes of the heap of the whole process
}

// DefaultLimits are thirty times what a plan of 10,000 nodes takes in time, and twenty times in memory.
var DefaultLimits = Limits{Time: time.Minute, Memory: 4 << 30}

// within runs the compilation and waits for it until a limit is reached; then it returns a diagnostic that points to
// the expression at work. What was begun cannot be interrupted: it runs on, unheard, until the program ends.
// waited is the time so far that it has waited for programs.
func (l Limits) within(at *atomic.Pointer[hcl.Range], waited func() time.Duration,
	compile func() (*Compiled, hcl.Diagnostics),
) (*Compiled, hcl.Diagnostics) {
	type result struct {
		out    *Compiled
		list   hcl.Diagnostics
		failed any // what the compilation panicked with
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.failed = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			done <- r
		}()
		r.out, r.list = compile()
	}()
	start := time.Now()
	late := time.NewTimer(l.Time)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case r := <-done:
			if r.failed != nil {
				panic(r.failed)
			}
			return r.out, r.list
		case <-late.C:
			if left := l.Time + waited() - time.Since(start); left > 0 {
				late.Reset(left)
				continue
			}
			return nil, beyond(at.Load(), fmt.Sprintf("After %s the plan is not compiled.", l.Time))
		case <-tick.C:
			if used := heap(); used > l.Memory {
				return nil, beyond(at.Load(), fmt.Sprintf("Compiling the plan takes more than %d MiB of memory.", l.Memory>>20))
			}
		}
	}
}

func beyond(at *hcl.Range, what string) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "the plan takes too much", Subject: at,
		Detail: what + " It was stopped while this was evaluated. Plans of 10,000 nodes need a fiftieth of the time and a " +
			"tenth of the memory: look for loops inside loops, and for values that are made of themselves many times over."}}
}

// heap is the memory that objects take, in bytes, with those that are no longer used and not yet freed.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
