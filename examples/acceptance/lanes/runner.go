package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// place makes a unit's namespaces what the tests take for granted of the machine that they
// run on: loopback, and an interface with a default route, which leads nowhere. What a test
// writes into the system's folders no other sees, since Linux machines lie on those, nor the
// sockets of its Wine servers, which are named after inodes. $1 is an empty folder. sh stays
// process 1 and reaps what loses its parent.
const place = `set -e
mount -t tmpfs tmpfs "$1"
for d in etc opt usr/libexec var/log; do
	[ -d "/$d" ] || continue
	mkdir -p "$1/$d/upper" "$1/$d/work"
	mount -t overlay -o "lowerdir=/$d,upperdir=$1/$d/upper,workdir=$1/$d/work" overlay "/$d"
done
mkdir -p -m 700 /tmp/.wine-0
mount -t tmpfs -o mode=700 tmpfs /tmp/.wine-0
shift
ip link set lo up
ip link add uplink type veth peer name uplink-end
ip link set uplink up
ip link set uplink-end up
ip addr add 192.0.2.2/24 dev uplink
ip -6 addr add fd00::2/64 dev uplink nodad 2>/dev/null || true
ip route add default via 192.0.2.1
set +e
"$@"
exit $?`

// runner runs units.
type runner struct {
	dir       string        // for what the tests of all units build
	pattern   string        // of the tests that are wanted; "" = all
	timeout   time.Duration // the longest bound of a unit
	test2json string
	events    *events

	mu     sync.Mutex
	times  map[string]float64
	failed bool
}

// run runs the units in their order, lanes of them at once, and then those that run alone.
func (r *runner) run(ctx context.Context, units []unit, lanes int) error {
	for _, part := range []struct {
		alone bool
		lanes int
	}{{false, lanes}, {true, 1}} {
		queue := make(chan unit, len(units))
		for _, u := range units {
			if u.alone == part.alone {
				queue <- u
			}
		}
		close(queue)
		var work sync.WaitGroup
		errs := make([]error, max(1, part.lanes))
		for i := range errs {
			work.Go(func() {
				for u := range queue {
					if errs[i] == nil {
						errs[i] = r.one(ctx, u)
					}
				}
			})
		}
		work.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	if r.failed {
		return errFailed
	}
	return nil
}

// one runs a unit and passes on its events. An error is of this program, not of a test.
func (r *runner) one(ctx context.Context, u unit) error {
	limit := r.limit(u)
	ctx, cancel := context.WithTimeoutCause(ctx, limit+time.Minute, fmt.Errorf("%s had not ended after %v", u,
		limit+time.Minute))
	defer cancel()
	// test2json stays outside: it reads to the end of the output, which a program that the
	// test has left behind holds open until the namespace ends. Each dies with its parent.
	files, err := os.MkdirTemp(r.dir, "lane-")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, r.test2json, "-t", "-p", u.pkg, "setpriv", "--pdeathsig", "KILL",
		"unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", place, "lane", files,
		u.bin, "-test.v=test2json", "-test.paniconexit0", "-test.timeout="+limit.String(), "-test.run="+r.wanted(u))
	cmd.Dir = u.dir
	cmd.Env = append(append(os.Environ(), "NODEJOIN_TEST_BUILDS="+filepath.Join(r.dir, "builds")), u.env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := r.events.begin(u); err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", u, err)
	}
	passed, copyErr := r.events.copyFrom(u, out)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("%s: %w", u, err)
	}
	r.mu.Lock()
	if err == nil && passed { // one that was skipped may take long when it is not
		r.times[u.String()] = time.Since(began).Seconds()
	}
	r.failed = r.failed || err != nil
	r.mu.Unlock()
	if err != nil {
		why := err
		if ctx.Err() != nil {
			why = context.Cause(ctx)
		}
		copyErr = errors.Join(copyErr, r.events.say(u, fmt.Sprintf("lanes: %s: %v", u, why)))
	}
	return errors.Join(copyErr, r.events.end(u, err != nil))
}

// leastLimit is time for a unit that usually takes seconds, on a machine with other work.
const leastLimit = 3 * time.Minute

// limit is how long a unit may take: three times as long as when it last passed. A unit that never passed may take the
// whole timeout.
func (r *runner) limit(u unit) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	usual, known := r.times[u.String()]
	if !known {
		return r.timeout
	}
	return min(max(time.Duration(3*usual*float64(time.Second)).Round(time.Second), leastLimit), r.timeout)
}

// wanted is the pattern of the tests of a unit.
func (r *runner) wanted(u unit) string {
	if u.test != "" {
		return "^" + u.test + "$"
	}
	return orAll(r.pattern)
}
