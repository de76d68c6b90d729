// Package atonce chooses how many hosts a run works on at once, where its user does not say.
package atonce

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// First is how many hosts a run begins with.
const First = 10

const (
	// What a run needs for a host while it works on it: open files (the connection, with a jump host another one, an
	// artifact, a log) and memory. 50 hosts over SSH took 0.1 MB each (examples/bench, 2026-11-25); a large reply takes
	// more.
	files  = 4
	memory = 4 << 20
	// spare are open files for all other things.
	spare = 100
	// busy is the part of the processors' time from which on a run does not take more hosts.
	busy = 0.75
)

// Choice is the number of hosts at once. It grows while processors are idle: then the run waits for hosts that are far
// away.
type Choice struct {
	mu      sync.Mutex
	now     int
	most    int
	full    bool   // there were as many hosts as could be worked on
	why     string // what sets most
	cpu     func() time.Duration
	clock   func() time.Time
	lastCPU time.Duration
	last    time.Time
}

// New chooses for this computer.
func New() *Choice {
	c := &Choice{now: First, cpu: cpuTime, clock: time.Now}
	c.most, c.why = most(openFiles(), memoryLeft())
	c.lastCPU, c.last = c.cpu(), c.clock()
	return c
}

// most is what this computer allows, and why. Half of the memory is for others. 0 files or memory = not known.
func most(open, left uint64) (n int, why string) {
	// A host that is 50 ms away takes 0.7 s, of which the controller computes 7 ms (50 hosts over SSH, a run without
	// changes: 3.7 s with 10 at once, 2.6 s with this choice, 1.6 s with 50). So 256 keep two processors busy.
	const all = 256
	n, why = all, "enough for any distance"
	if by := (max(open, spare) - spare) / files; open > 0 && by < uint64(n) {
		n, why = int(by), fmt.Sprintf("%d open files", open)
	}
	if by := left / 2 / memory; left > 0 && by < uint64(n) {
		n, why = int(by), fmt.Sprintf("%d MiB of memory left", left>>20)
	}
	return max(First, n), why
}

// More reports whether one host more may be worked on at once. It is asked while that many are.
func (c *Choice) More() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = true
	now, used := c.clock(), c.cpu()
	wall, work := now.Sub(c.last), used-c.lastCPU
	if wall > time.Second { // the processors' load is that of the last second or so
		c.last, c.lastCPU = now, used
	}
	if c.now >= c.most || wall <= 0 || float64(work)/float64(wall)/float64(runtime.NumCPU()) > busy {
		return false
	}
	c.now++
	return true
}

// Counted reports whether the choice mattered: there were as many hosts as could be worked on at once.
func (c *Choice) Counted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full
}

func (c *Choice) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d hosts at once, at most %d (%s)", c.now, c.most, c.why)
}

// memoryLeft is the memory that programs can still get, in bytes; 0 = not known (not Linux).
func memoryLeft() uint64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil && kib < math.MaxUint64>>10 {
				return kib << 10
			}
		}
	}
	return 0
}
