package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/plan"
	"nodejoin/steps/cluster"
	"nodejoin/steps/kube"
)

// App is what the commands share with the others of nodejoin.
type App struct {
	// PlanFlags are those of a command that reads a plan.
	PlanFlags func(*cobra.Command)
	// Load compiles the plan that the arguments name; a variable may have no value. root is the folder that has
	// its files.
	Load func(ctx context.Context, args []string) (p *plan.Compiled, root string, files []string, err error)
	// Run runs another command of nodejoin, and returns its exit code.
	Run func(ctx context.Context, args []string, out, err io.Writer) int
	// Approve asks whether to begin.
	Approve func(ctx context.Context, p *plan.Compiled, question string) error
	Usage   func(*cobra.Command, error) error
	Exit    func(code int) error
	Out     io.Writer
	Err     io.Writer
}

// command is one run of a command.
type command struct {
	App
	Options
	hostKeys   string   // --known-hosts
	keys       []string // --ssh-key
	kubeconfig string   // --kubeconfig
	auto, json bool
	drift      bool   // --drift of status and logs
	others     string // --pods-kubeconfig
	metrics    string // --metrics of status
	over       string // folder of a pod with what Secrets have of the plan
	shard      int
}

// nameFlags name the fleet. Two environments of a plan have two fleets, so their objects do not get the same name.
func (x *command) nameFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&x.Name, "name", "nodejoin", "`name` of the Job, and of its objects; with --env nodejoin-ENV by default")
	f.StringVar(&x.Namespace, "namespace", "nodejoin", "`name` of their namespace")
	c.PreRun = func(c *cobra.Command, _ []string) {
		if env, _ := f.GetString("env"); env != "" && !f.Changed("name") {
			x.Name += "-" + env
		}
	}
}

// clusterFlag names the cluster that the fleet is in.
func (x *command) clusterFlag(c *cobra.Command) {
	c.Flags().StringVar(&x.kubeconfig, "kubeconfig", "", "`file` of the cluster's kubeconfig; default that of the plan")
}

// fleetFlags describe the objects of the fleet.
func (x *command) fleetFlags(c *cobra.Command) {
	x.PlanFlags(c)
	x.nameFlags(c)
	f := c.Flags()
	f.StringVar(&x.Image, "image", "", "container `image` of nodejoin, best with its digest")
	f.StringVar(&x.Command, "command", Commands[0], "`command` of nodejoin that the pods run: "+
		strings.Join(Commands, ", "))
	f.IntVar(&x.Shards, "shards", 8, "how many shards the nodes are divided into")
	f.IntVar(&x.AtOnce, "at-once", 2, "how many pods run at once")
	f.IntVar(&x.Retries, "retries", 3, "how often a shard whose hosts were locked or did not answer starts again")
	f.StringVar(&x.Drift, "drift", "", "`schedule` by which a CronJob checks for drift, such as \"0 * * * *\"")
	f.StringVar(&x.PlanImage, "plan-image", "", "`repository` for the plan, oci://registry.example/plans, in place of a "+
		"ConfigMap: for more than 1 MiB")
	f.StringVar(&x.others, "pods-kubeconfig", "", "`file`: kubeconfig of the plan's cluster for the pods, if they run "+
		"in another cluster")
	f.StringVar(&x.hostKeys, "known-hosts", "", "`file` with the host keys of the machines")
}

// load describes the fleet of a plan.
func (x *command) load(c *cobra.Command, args []string) (*Fleet, *plan.Compiled, error) {
	if err := x.Check(); err != nil {
		return nil, nil, x.Usage(c, err)
	}
	if x.hostKeys != "" {
		b, err := os.ReadFile(x.hostKeys)
		if err != nil {
			return nil, nil, x.Usage(c, fmt.Errorf("--known-hosts: %w", err))
		}
		x.KnownHosts = string(b)
	}
	if x.others != "" {
		b, err := os.ReadFile(x.others)
		if err == nil {
			err = checkKubeconfig(b)
		}
		if err != nil {
			return nil, nil, x.Usage(c, fmt.Errorf("--pods-kubeconfig: %w", err))
		}
		x.PodKubeconfig = b
	}
	if home, err := os.UserHomeDir(); err == nil {
		x.Home = home
	}
	p, root, files, err := x.Load(c.Context(), args)
	if err != nil {
		return nil, nil, err
	}
	f, err := New(x.Options, p, root, files)
	return f, p, err
}

// open opens the cluster that the Job is in.
func (x *command) open(ctx context.Context, args []string) (*cluster.Jobs, error) {
	conf := cluster.Config{Kubeconfig: x.kubeconfig, FieldManager: "nodejoin-fleet"}
	if conf.Kubeconfig == "" {
		p, _, _, err := x.Load(ctx, args)
		if err != nil {
			return nil, err
		}
		if p.Cluster == nil || p.Cluster.Kubeconfig == "" {
			return nil, errors.New("the plan names no kubeconfig: give --kubeconfig FILE")
		}
		conf.Kubeconfig, conf.CAHash = p.Cluster.Kubeconfig, p.Cluster.CAHash
	}
	return cluster.OpenJobs(ctx, conf)
}

// keyFiles are the files of --ssh-key by their names.
func (x *command) keyFiles() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range x.keys {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--ssh-key: %w", err)
		}
		base := filepath.Base(name)
		if strings.HasSuffix(base, ".pub") {
			return nil, fmt.Errorf("--ssh-key %s: it is a public key; give the private one", name)
		}
		if _, twice := out[base]; twice {
			return nil, fmt.Errorf("--ssh-key: two files are called %s", base)
		}
		out[base] = b
	}
	return out, nil
}

// job names the Job.
func (x *command) job() kube.Manifest { return object("batch/v1", "Job", x.Namespace, x.Name) }

// pods are those of a Job.
func (x *command) pods(ctx context.Context, api *cluster.Jobs, job string) ([]map[string]any, error) {
	return api.List(ctx, kube.Manifest{APIVersion: "v1", Kind: "Pod", Namespace: x.Namespace},
		"batch.kubernetes.io/job-name="+job)
}
