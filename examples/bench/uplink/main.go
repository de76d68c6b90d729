//go:build linux

// Uplink measures a cold join of many hosts behind a slow link: the time, and what crosses the controller's uplink,
// with a mirror near the hosts and without one. It needs Linux, root and OpenSSH's server. All that it starts ends
// with it.
//
//	go generate ./steps/agentbin
//	go build -tags embedagent -o /tmp/nodejoin ./cmd/nodejoin
//	go run ./examples/bench/uplink -nodejoin /tmp/nodejoin
//
// Each host is a server of its own with its own /srv and /root. The link delays, and is as fast for all hosts together
// as -rate says; it is made of TCP proxies, so TCP's own slow start is not in the numbers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"nodejoin/examples/internal/farhosts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "uplink:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	hosts := flag.Int("hosts", 10, "number of hosts")
	rtt := flag.Duration("rtt", 50*time.Millisecond, "round-trip time of the link")
	rate := flag.Float64("rate", 20, "speed of the link in each direction, MB/s")
	size := flag.Int("size", 171, "archives of each host, MB; four of them")
	runs := flag.Int("runs", 1, "runs of each kind; the fastest counts")
	program := flag.String("nodejoin", "nodejoin", "the `program` to measure")
	plan := flag.String("plan", "examples/bench", "folder of the plan and of run.sh")
	flag.Parse()
	dir, err := os.MkdirTemp("", "uplink-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	repo := filepath.Join(dir, "repo")
	sums, err := makeArchives(repo, *size)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mirror := &http.Server{Handler: http.FileServer(http.Dir(repo)), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- mirror.Serve(l) }()
	defer func() {
		_ = mirror.Close()
		<-served //nolint:errcheck // it was closed
	}()
	fmt.Printf("%d hosts, %d MB each, %v, %g MB/s\n\n", *hosts, *size, *rtt, *rate)
	fmt.Print("| archives from | before | seconds | MB up | MB down | connections |\n|---|---|--:|--:|--:|--:|\n")
	for _, from := range []struct{ name, repo string }{{"a mirror near the hosts", "http://" + l.Addr().String()},
		{"the controller", repo}} {
		join := func(env []string) error {
			return apply(ctx, *program, *plan, append(env, "HP_REPO="+from.repo, "HP_FORKS="+strconv.Itoa(*hosts)), sums)
		}
		for _, warm := range []bool{false, true} {
			var best *result
			for range *runs {
				r, err := measure(ctx, filepath.Join(dir, "bed"), *hosts, farhosts.NewLink(*rtt, *rate), warm, join)
				if err != nil {
					return err
				}
				if best == nil || r.took < best.took {
					best = r
				}
			}
			fmt.Printf("| %s | %s | %.1f | %.1f | %.1f | %d |\n", from.name, map[bool]string{false: "agents are sent",
				true: "agents are there"}[warm], best.took.Seconds(), best.up, best.down, best.conns)
		}
	}
	return nil
}

type result struct {
	took     time.Duration
	up, down float64 // MB
	conns    int64
}

// measure runs join on a new bed, warm = with the agents there already.
func measure(ctx context.Context, dir string, hosts int, link *farhosts.Link, warm bool,
	join func(env []string) error) (r *result, err error) {
	bed, err := farhosts.New(ctx, farhosts.Options{Dir: dir, Real: hosts, Link: link})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	if warm {
		if err := join(append(bed.Env(), "HP_PHASE=agents")); err != nil {
			return nil, err
		}
	}
	link.Reset()
	began := time.Now()
	if err := join(bed.Env()); err != nil {
		return nil, err
	}
	r = &result{took: time.Since(began)}
	r.up, r.down, r.conns = link.Used()
	return r, nil
}

// apply runs nodejoin by run.sh.
func apply(ctx context.Context, program, plan string, env []string, sums []byte) error {
	run, err := os.MkdirTemp("", "uplink-run-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(run) }()
	vars := filepath.Join(run, "harness.json")
	if err := os.WriteFile(vars, sums, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(plan, "run.sh"))
	cmd.Env = append(os.Environ(), append(env, "NODEJOIN="+program, "HP_RUN="+run, "HP_VARS="+vars)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run.sh: %w\n%s", err, out)
	}
	return nil
}
