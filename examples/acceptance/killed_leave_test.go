package acceptance_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// killedLeaveAfter is the number of mutating calls after which each run of killedLeave dies, unless it dies at every
// call. A leave makes about 190.
const killedLeaveAfter = 14

// everyCall reports whether killedLeave has a run die at each mutating call of a leave, which takes many minutes.
func everyCall() bool { return os.Getenv("NODEJOIN_LEAVE_EVERY_CALL") != "" }

// oneCall finds the number of mutating calls after which the next run dies so that it makes one call that no earlier
// run has made: one, or more where a run begins with what the one before has done.
type oneCall struct {
	after int
	seen  map[string]bool
}

// ended takes the calls of a run that died, and what the record of the machine was then.
func (o *oneCall) ended(calls []string, record []byte) {
	state := fmt.Sprintf("%q %x", calls, sha256.Sum256(record))
	if o.seen[state] {
		o.after++
		return
	}
	o.seen[state] = true
	o.after = 1
}

// killedLeave leaves in runs that die, the agent and nodejoin, after a few calls, until one comes to its end. While a
// leave is unfinished, status says so. The shim, which holds its program, is ended.
func (b *bed) killedLeave(ctx context.Context, args []string) {
	b.t.Helper()
	nodejoin := program(nodejoinWith(b.t, "linux", "crashtest"))
	shim := b.startShim(ctx)
	least, one := 5, &oneCall{after: 1, seen: map[string]bool{}}
	if everyCall() {
		least = 100
	}
	noted := false
	var last, before []string // the last call of each run; all of the one before
	for {
		after := killedLeaveAfter
		if everyCall() {
			after = one.after
		}
		b.crashAfter(after)
		r := nodejoin.run(ctx, b.t, "leave", args, func(e streamEvent, controller *os.Process) {
			// The connection breaks, too, when the virtual switch goes.
			if e.Type == "host_state" && e.State == "reconnecting" && b.crashed() {
				controller.Kill()
			}
		})
		if r.code == 0 {
			break
		}
		if r.code != -1 {
			b.t.Fatalf("leave after %d that were killed: %s", len(last), r)
		}
		calls := b.wantCrashed()
		last = append(last, calls[len(calls)-1])
		b.t.Logf("leave %d was killed after %q", len(last), calls)
		if n := len(calls) - 1; everyCall() && n > 0 && !slices.Equal(calls[:n], before) {
			b.t.Errorf("leave %d made more than one call that is new", len(last))
		}
		before = calls
		one.ended(calls, b.record())
		if err := os.Remove(b.host.Path(dataDir + `\crashed`)); err != nil {
			b.t.Fatal(err)
		}
		if had := noted; everyCall() || !had {
			noted = had || slices.Contains(calls, `write file `+dataDir+`\history.json`)
			if noted {
				b.wantUnfinished(ctx, args)
			}
		}
	}
	if !noted {
		b.t.Error("no run has noted that the machine leaves")
	}
	if len(last) < least {
		b.t.Errorf("only %d leaves were killed", len(last))
	}
	select {
	case <-shim:
	case <-ctx.Done():
		b.t.Error("the shim still runs")
	}
	// The order of the last run, in nodejoin's folder, is the test's.
	if err := errors.Join(os.Remove(b.host.Path(dataDir+`\crash-after`)), os.Remove(b.host.Path(dataDir))); err != nil {
		b.t.Error(err)
	}
}

// wantUnfinished: status says that a leave is unfinished, as long as the machine has nodejoin's notes, which go at the
// end. It never says that the node has drifted.
func (b *bed) wantUnfinished(ctx context.Context, args []string) {
	b.t.Helper()
	_, err := os.Stat(b.host.Path(dataDir + `\history.json`))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	out, code := released(b.t).status(ctx, b.t, args)
	if code == 0 || strings.Contains(out, "unfinished") != (err == nil) || strings.Contains(out, "drifted") {
		b.t.Errorf("status of a leave that was killed has exit code %d:\n%s", code, out)
	}
}

// record is nodejoin's record of the machine, empty once it is gone.
func (b *bed) record() []byte {
	b.t.Helper()
	text, err := os.ReadFile(b.host.Path(dataDir + `\record.json`))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	return text
}

// startShim starts containerd's shim as containerd does for a pod. It waits for its options, which do not come. The
// channel is closed when it has ended.
func (b *bed) startShim(ctx context.Context) <-chan struct{} {
	b.t.Helper()
	const folder = `C:\Program Files\containerd\`
	cmd := b.host.Command(ctx, folder+"containerd-shim-runhcs-v1.exe", "-namespace", "k8s.io", "-address",
		`\\.\pipe\containerd-containerd`,
		"-publish-binary", folder+"containerd.exe", "-id", strings.Repeat("5", 64), "serve",
		"-socket", `\\.\pipe\containerd-shim-test`, "-is-sandbox")
	out, err := os.Create(filepath.Join(b.dir, "shim.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	options, err := cmd.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
		_ = options.Close()
	}()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return ended
}
