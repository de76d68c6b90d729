package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/steps/cluster"
	"nodejoin/steps/kube"
)

// writeFor bounds how long a pod writes its result, also after it was told to end.
const (
	writeFor   = 30 * time.Second
	writeEvery = time.Second
)

func newWork(x *command) *cobra.Command {
	c := &cobra.Command{
		Use:    "work -- COMMAND [FLAGS] PLAN",
		Short:  "Run one shard, in a pod of a fleet",
		Long:   "The pods of a fleet run this: it runs a command for their shard, and writes its result into a ConfigMap.",
		Hidden: true,
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) < 2 || args[0] != "status" && !slices.Contains(Commands, args[0]) {
			return x.Usage(c, errors.New("fleet work needs status or a command of fleets, and a plan"))
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error { return x.work(c, args) }
	c.Flags().IntVar(&x.Shards, "shards", 1, "how many shards there are")
	c.Flags().StringVar(&x.Namespace, "namespace", "nodejoin", "namespace of the result")
	c.Flags().StringVar(&x.PlanImage, "plan-image", "", "the plan in a registry, with its digest, for the folder PLAN")
	x.over = planFolder
	x.clusterFlag(c)
	return c
}

func (x *command) work(c *cobra.Command, args []string) error {
	ctx := c.Context()
	index, err := strconv.Atoi(os.Getenv("JOB_COMPLETION_INDEX")) // the Job controller sets it
	if err != nil || index < 0 || index >= x.Shards {
		return x.Usage(c, fmt.Errorf("JOB_COMPLETION_INDEX is %q: it must be the index of a pod, below --shards",
			os.Getenv("JOB_COMPLETION_INDEX")))
	}
	r := Result{Shard: index + 1, Shards: x.Shards, Command: args[0]}
	x.run(ctx, &r, args)
	r.Ended = time.Now().UTC()
	r.Retried, _ = strconv.Atoi(os.Getenv("NODEJOIN_FLEET_RETRIED")) // it is empty for the first pod
	code := r.Code
	if code == codePending { // the Job has done its work
		code = codeOK
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeFor)
	defer cancel()
	if err := x.write(ctx, r); err != nil {
		_, _ = fmt.Fprintln(x.Err, "nodejoin: the result of the shard could not be written:", err)
		if code == codeOK {
			code = codeUnreachable // the next pod of the shard finds nothing to do, and writes that
		}
	}
	return x.Exit(code)
}

// run runs the command, and fills in what it leaves.
func (x *command) run(ctx context.Context, r *Result, args []string) {
	said, wrong := tail{most: mostTail}, tail{most: mostStderr}
	errs := io.MultiWriter(x.Err, &wrong)
	if x.PlanImage != "" {
		if err := x.unpackPlan(ctx, args[len(args)-1]); err != nil {
			_, _ = fmt.Fprintln(errs, "nodejoin: the plan cannot be read:", err)
			r.Code, r.Stderr = codeUnreachable, strings.ToValidUTF8(string(wrong.b), "?")
			return
		}
	}
	metrics := filepath.Join(os.TempDir(), "nodejoin-fleet.prom")
	run := append([]string{args[0], "--json", "--shard", fmt.Sprintf("%d/%d", r.Shard, r.Shards)}, args[1:]...)
	switch args[0] {
	case "apply":
		run = append(run, "--auto-approve", "--metrics", metrics)
	case "leave":
		run = append(run, "--auto-approve", "--all")
	case "status":
		run = append(run, "--detailed-exitcode", "--metrics", metrics)
	}
	r.Code = x.Run(ctx, run, io.MultiWriter(x.Out, &said), errs)
	r.Report = said.last(args[0] == "apply" || args[0] == "leave")
	if r.Code != codeOK && r.Code != codePending {
		r.Stderr = strings.ToValidUTF8(string(wrong.b), "?")
	}
	if b, err := os.ReadFile(metrics); err == nil { // a run that could not begin has none
		r.Metrics = string(b)
	}
}

// write puts the result into a ConfigMap that the Job owns. It tries again until ctx ends: the API server may be away
// for a moment.
func (x *command) write(ctx context.Context, r Result) error {
	for {
		err := x.writeOnce(ctx, r)
		if !errors.Is(err, kube.ErrUnreachable) {
			return err
		}
		select {
		case <-time.After(writeEvery): // between two tries
		case <-ctx.Done():
			return err
		}
	}
}

func (x *command) writeOnce(ctx context.Context, r Result) error {
	api, err := cluster.OpenJobs(ctx, cluster.Config{Kubeconfig: x.kubeconfig, FieldManager: "nodejoin-fleet"})
	if err != nil {
		return err
	}
	job, uid := os.Getenv("NODEJOIN_FLEET_JOB"), os.Getenv("NODEJOIN_FLEET_JOB_UID")
	m, err := r.object(x.Namespace, job, uid)
	if err != nil {
		return err
	}
	if err := api.ApplyManifest(ctx, m); err != nil {
		return err
	}
	if err := r.writeEvents(ctx, api, x.Namespace, job, uid); err != nil { // they are only for people
		_, _ = fmt.Fprintln(x.Err, "nodejoin: the events of the shard could not be written:", err)
	}
	return nil
}

// tail keeps the end of what a command has written.
type tail struct {
	b    []byte
	most int // bytes
}

const (
	mostTail   = 16 << 20 // that a ConfigMap could hold packed
	mostStderr = 8 << 10
)

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - t.most; n > 0 {
		t.b = t.b[n:]
	}
	return len(p), nil
}

// last is the report: the last line of a stream of events, or all.
func (t *tail) last(stream bool) []byte {
	text := strings.TrimSpace(string(t.b))
	if i := strings.LastIndexByte(text, '\n'); stream && i >= 0 {
		text = text[i+1:]
	}
	return []byte(text)
}
