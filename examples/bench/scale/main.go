//go:build linux

// Scale measures runs of nodejoin over 1 to 1,000 hosts: the time, and what the controller uses. It needs Linux, and
// for -real above 0 root and OpenSSH's server. All that it starts ends with it.
//
//	go generate ./steps/agentbin
//	go build -tags embedagent -o /tmp/nodejoin ./cmd/nodejoin
//	go run ./examples/bench/scale -nodejoin /tmp/nodejoin
//
// The hosts are behind a link that delays. Some are OpenSSH servers of this machine, the rest are sandboxes that this
// process serves over SSH. The plan is that of the folder above: 30 steps. For -ansible it needs Debian's packages
// ansible-core and ansible-mitogen.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/examples/internal/farhosts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// scale is what is measured.
type scale struct {
	dir, program, plan string
	parallel           string
	real, runs         int
	ansible            string // "", mitogen, all
	rtt                time.Duration
	archives           archives
	mirror             string                   // its address
	one                map[string]time.Duration // CPU time of runs over one host
}

func run(ctx context.Context) (err error) {
	s := scale{one: map[string]time.Duration{}}
	list := flag.String("hosts", "1,10,100,1000", "numbers of hosts")
	flag.IntVar(&s.real, "real", 50, "most hosts that are OpenSSH servers; the rest are sandboxes")
	flag.DurationVar(&s.rtt, "rtt", 50*time.Millisecond, "round-trip time of the link")
	flag.IntVar(&s.runs, "runs", 1, "runs without changes; the fastest counts")
	flag.StringVar(&s.program, "nodejoin", "nodejoin", "the `program` to measure")
	flag.StringVar(&s.plan, "plan", "examples/bench", "folder of the plan and of run.sh")
	flag.StringVar(&s.ansible, "ansible", "", "also measure Ansible where all hosts are real: with `mitogen`, "+
		"or all, which is without it, too")
	flag.StringVar(&s.parallel, "parallel", "auto", "--parallel of nodejoin")
	flag.Parse()
	if !slices.Contains([]string{"", "mitogen", "all"}, s.ansible) {
		return fmt.Errorf("-ansible is %q: use mitogen or all", s.ansible)
	}
	if s.dir, err = os.MkdirTemp("", "scale-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if s.archives, err = makeArchives(filepath.Join(s.dir, "repo")); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mirror := &http.Server{Handler: http.FileServer(http.Dir(filepath.Join(s.dir, "repo"))),
		ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- mirror.Serve(l) }()
	defer func() {
		_ = mirror.Close()
		<-served //nolint:errcheck // it was closed
	}()
	s.mirror = "http://" + l.Addr().String()
	fmt.Printf("round-trip time %v, --parallel %s; controller: what nodejoin used\n\n", s.rtt, s.parallel)
	fmt.Print("| hosts | real | run | seconds | CPU seconds | CPU ms a further host | MB | |\n" +
		"|--:|--:|---|--:|--:|--:|--:|---|\n")
	for _, text := range strings.Split(*list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if err := s.measure(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// measure prints rows for n hosts.
func (s scale) measure(ctx context.Context, n int) (err error) {
	real := min(s.real, n)
	bed, err := farhosts.New(ctx, farhosts.Options{Dir: filepath.Join(s.dir, "bed"), Real: real, Cheap: n - real,
		Link: farhosts.NewLink(s.rtt, 0)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	first, err := s.apply(ctx, bed)
	if err != nil {
		return err
	}
	s.row("first", n, real, first)
	var best usage
	for range s.runs {
		u, err := s.apply(ctx, bed)
		if err != nil {
			return err
		}
		if best.took == 0 || u.took < best.took {
			best = u
		}
	}
	s.row("no changes", n, real, best)
	if s.ansible != "" && real == n {
		return s.rowsOfAnsible(ctx, bed)
	}
	return nil
}

// row prints a row for a run over n hosts.
func (s scale) row(name string, n, real int, u usage) {
	further := ""
	if one, ok := s.one[name]; ok && n > 1 {
		further = fmt.Sprintf("%.1f", 1e3*(u.cpu-one).Seconds()/float64(n-1))
	}
	if n == 1 {
		s.one[name] = u.cpu
	}
	fmt.Printf("| %d | %d | %s | %.1f | %.2f | %s | %.0f | %s |\n", n, real, name, u.took.Seconds(), u.cpu.Seconds(),
		further, u.memory, u.said)
}
