// Package fleet runs a plan as a Job of Kubernetes: a pod for each shard of its nodes. It describes the objects, and
// gathers what the pods have found.
package fleet

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/plan"
	"nodejoin/plan/source"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/collect"
)

// Options are what a fleet is rendered with.
type Options struct {
	Name, Namespace string
	Image           string // of nodejoin
	Command         string // of nodejoin that the pods run; see Commands
	Shards, AtOnce  int
	Retries         int    // of a shard whose hosts were locked or did not answer
	Drift           string // schedule of the CronJob, as cron writes it; "" = none
	KnownHosts      string // content of a file with host keys; "" = none
	Home            string // of the user on this machine
	PlanImage       string // repository for the plan, oci://registry.example/plans; "" = a ConfigMap has it
	PodKubeconfig   []byte // of the plan's cluster, where the pods run in another; nil = they run in it
}

// Fleet is a plan with what its objects are made from.
type Fleet struct {
	Options
	Environment string
	Plan        string // the name that it marks its Nodes with; "" = it has no cluster and no environment
	Nodes       int
	Files       []File     // of the plan, for a ConfigMap
	Packed      *PlanImage // the same files, for a registry; nil = the ConfigMap has them
	Values      []File     // of the plan, for a Secret: those of values, and others that have secrets
	Kubeconfig  Path       // where the plan looks for it, in the pod
	Ports       []int      // that pods connect to, besides those of DNS
	Rules       []Rule     // rights in the whole cluster
	Registries  bool       // the pods read from one
}

// Writes reports whether the pods write into kube-system: tokens, Leases, the list of the plan's objects.
func (f *Fleet) Writes() bool { return f.Command == "apply" || f.Command == "leave" }

// Other reports whether the plan's cluster is another than the one that the pods run in.
func (f *Fleet) Other() bool { return f.PodKubeconfig != nil }

// Commands are those that the pods of a fleet may run. apply is the first.
var Commands = []string{"apply", "doctor", "leave", "verify"}

var (
	nameForm      = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)
	imageForm     = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._:/@-]*$`)
	planImageForm = regexp.MustCompile(`^oci://[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$`)
	scheduleForm  = regexp.MustCompile(`^(@(hourly|daily|weekly|monthly|yearly)|[0-9*/,A-Za-z-]+( [0-9*/,A-Za-z-]+){4})$`)
)

// Check judges the options.
func (o Options) Check() error {
	switch {
	case !nameForm.MatchString(o.Name):
		return fmt.Errorf("--name %q: it must have at most 40 small letters, digits and '-', and begin with a letter",
			o.Name)
	case !nameForm.MatchString(o.Namespace):
		return fmt.Errorf("--namespace %q: it must have at most 40 small letters, digits and '-', and begin with a letter",
			o.Namespace)
	case o.Image == "":
		return errors.New("--image is missing: the container image of nodejoin, as your registry has it")
	case len(o.Image) > 251 || !imageForm.MatchString(o.Image):
		return fmt.Errorf("--image %q: it must be a reference such as registry.example/nodejoin:1.0 or ...@sha256:DIGEST",
			o.Image)
	case o.Shards < 1 || o.Shards > selection.MostShards:
		return fmt.Errorf("--shards: it must be a whole number from 1 to %d", selection.MostShards)
	case o.AtOnce < 1:
		return errors.New("--at-once: it must be at least 1")
	case o.Retries < 0 || o.Retries > 100:
		return errors.New("--retries: it must be a whole number from 0 to 100")
	case !slices.Contains(Commands, o.Command):
		return fmt.Errorf("--command %q: it must be one of %s", o.Command, strings.Join(Commands, ", "))
	case o.Command != Commands[0] && o.Drift != "":
		return fmt.Errorf("--drift goes with --command apply: the pods of %s do not have the rights that a check for drift "+
			"needs", o.Command)
	case o.PlanImage != "" && !planImageForm.MatchString(o.PlanImage):
		return fmt.Errorf("--plan-image %q: it must be a repository such as oci://registry.example/plans/prod, without a "+
			"tag", o.PlanImage)
	case o.Drift != "" && !scheduleForm.MatchString(o.Drift):
		return fmt.Errorf("--drift %q: it must be a schedule of cron, such as \"0 * * * *\"", o.Drift)
	}
	return nil
}

// New describes the fleet of a plan. root is the folder that has the plan and all of its files, files are those.
func New(o Options, p *plan.Compiled, root string, files []string) (*Fleet, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	f := &Fleet{Options: o, Environment: p.Environment, Nodes: len(p.Nodes), Plan: steps.PlanName(p.Environment, "")}
	if p.Cluster != nil {
		f.Plan = steps.PlanName(p.Environment, p.Cluster.Name)
	}
	switch {
	case len(p.Unvalued) > 0:
		return nil, fmt.Errorf("%s: no value is known here, and the objects of a fleet depend on the plan's values: put it "+
			"into a file of values beside the plan, or into the environment as NODEJOIN_VAR_name",
			strings.Join(p.Unvalued, ", "))
	case len(p.Nodes) == 0:
		return nil, errors.New("the plan has no nodes as far as it can be read here: programs of data blocks are not run")
	case p.Cluster != nil && p.Cluster.Kubeconfig == "" && p.Cluster.Sandbox == "":
		return nil, errors.New("the plan names no kubeconfig: the pods of a fleet have theirs where the plan looks for it")
	}
	if p.Cluster != nil && p.Cluster.Sandbox != "" {
		return nil, errors.New("the plan's cluster is a sandbox: a fleet runs in a real one")
	}
	for _, n := range p.Nodes {
		if err := f.reaches(n); err != nil {
			return nil, err
		}
	}
	var secrets []string
	for _, n := range p.Nodes {
		secrets = append(secrets, collect.Secrets(n.Steps)...)
	}
	var err error
	most := mostBytes
	if o.PlanImage != "" {
		most = mostImage
	}
	if f.Files, f.Values, err = readFiles(p.Dir, root, files, secrets, most); err != nil {
		return nil, err
	}
	f.Kubeconfig, f.Ports = Path{At: homeFolder + "/.kube/config"}, ports(p)
	if p.Cluster != nil {
		f.Kubeconfig, f.Rules = inPod(p.Cluster.Kubeconfig, p.Dir, o.Home), rules(p, o.Command)
	}
	if f.Other() {
		f.Rules = nil // the rights are those of its kubeconfig
	}
	if o.PlanImage != "" {
		f.Packed, err = newPlanImage(o.PlanImage, f.Files)
		f.Files, f.Ports = nil, append(f.Ports, portOf("https://"+strings.TrimPrefix(o.PlanImage, "oci://")))
		slices.Sort(f.Ports)
		f.Ports = slices.Compact(f.Ports)
	}
	f.Registries = f.Packed != nil || slices.ContainsFunc(p.Modules, func(m source.Remote) bool {
		return strings.HasPrefix(m.Address, artifact.OCIScheme)
	})
	return f, err
}

// reaches judges whether a pod can connect to a node.
func (f *Fleet) reaches(n plan.Node) error {
	c := n.Connection.SSH
	if c == nil {
		return fmt.Errorf("%s: node %q has the connection %q: the pods of a fleet reach machines over SSH",
			n.Connection.Source, n.Name, n.Connection.Type)
	}
	for _, file := range append(slices.Clone(c.Identity), c.KnownHosts...) {
		if rest, in := strings.CutPrefix(file, f.Home+"/.ssh/"); f.Home == "" || !in || strings.Contains(rest, "/") {
			return fmt.Errorf("%s: node %q has the file %s: the pods of a fleet have keys and known_hosts in ~/.ssh",
				n.Connection.Source, n.Name, file)
		}
	}
	if c.HostKey == "" && f.KnownHosts == "" {
		return fmt.Errorf("%s: the host key of node %q is not known in a pod: give --known-hosts FILE, or host_key in the "+
			"plan", n.Connection.Source, n.Name)
	}
	return nil
}

// ports are those that the pods connect to.
func ports(p *plan.Compiled) []int {
	out := []int{22, 443, 6443}
	if p.Cluster != nil {
		out = append(out, portOf(p.Cluster.APIServer))
	}
	for _, m := range p.Modules {
		out = append(out, portOf(m.Address))
	}
	for _, n := range p.Nodes {
		if c := n.Connection.SSH; c.Port != 0 {
			out = append(out, c.Port)
		}
		for _, j := range n.Connection.SSH.Jump {
			out = append(out, portOf("ssh://"+j))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
