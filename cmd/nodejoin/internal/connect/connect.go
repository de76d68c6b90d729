// Package connect opens what a plan names: its hosts, its cluster, and the agents for its hosts.
package connect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/agentbin"
	"nodejoin/steps/artifact"
	"nodejoin/steps/cluster"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// Hosts returns a function that opens the connection of a node. emit gets the states of
// connections, from several hosts at once. agent finds the agents; nil = those of this nodejoin.
func Hosts(emit func(event.Event), agent Agents) func(context.Context, plan.Node) (transport.Conn, error) {
	all := &shared{agents: agent.orOwn()}
	direct := artifact.New(artifact.Options{Direct: true})
	return func(ctx context.Context, n plan.Node) (transport.Conn, error) {
		switch n.Connection.Type {
		case "sandbox":
			s := n.Connection.Sandbox
			h, err := sandbox.Open(ctx, sandbox.Config{Path: s.Path, OS: n.OS, Build: s.Build, IP: s.IP, IP6: s.IP6,
				Hostname: n.Name, Capacity: s.Capacity, DataDir: n.DataDir, ClusterDir: s.ClusterDir})
			if err != nil {
				return nil, sandboxError(ctx, "the sandbox cannot be used", s.Path, err)
			}
			return transport.NewLocal(host.OnInterface(h, n.Interface), direct, h.LockDir()), nil
		case "local":
			h, err := Local(n)
			if err != nil {
				return nil, err
			}
			f, err := h.Facts(ctx)
			if err != nil {
				return nil, err
			}
			files := artifact.New(artifact.Options{Direct: true, MachineEnv: h.MachineEnv})
			return transport.NewLocal(host.OnInterface(h, n.Interface), files, f.DataDir), nil
		case "ssh":
			return dialSSH(ctx, n, all, emit)
		case "winrm":
			return dialWinRM(ctx, n, all, emit)
		}
		return nil, fmt.Errorf("%s: there is no connection of type %q", n.Address, n.Connection.Type)
	}
}

// sandboxError is a failure of a simulated machine or cluster.
func sandboxError(ctx context.Context, summary, dir string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: summary, Detail: err.Error(),
		Remedy: "fix what is named above, or remove the folder " + dir + " to start the simulation again"}
}

// Cluster returns a function that opens the plan's cluster, real or simulated.
func Cluster(p *plan.Compiled) func(context.Context) (kube.API, error) {
	return func(ctx context.Context) (kube.API, error) {
		c := p.Cluster
		switch {
		case c == nil:
			return nil, fmt.Errorf("the plan has steps for a cluster, but no cluster block")
		case c.Sandbox != "":
			// A simulated control plane has the version in the plan, even if that changes.
			k, err := sandbox.OpenCluster(ctx, sandbox.ClusterConfig{Dir: c.Sandbox, PodCIDR: c.PodCIDR, DNSIP: c.DNSIP,
				Version: "v" + cmp.Or(c.ServerVersion, c.Version)})
			if err == nil && c.ServerVersion != "" {
				err = k.Upgrade(ctx, "v"+c.ServerVersion)
			}
			if err != nil {
				return nil, sandboxError(ctx, "the simulated cluster cannot be used", c.Sandbox, err)
			}
			return k, nil
		}
		k, err := cluster.Open(ctx, cluster.Config{Kubeconfig: c.Kubeconfig, CAHash: c.CAHash, FieldManager: "nodejoin"})
		if err != nil {
			return nil, kubeconfigError(c.Kubeconfig, err)
		}
		return k, nil
	}
}

// kubeconfigError is why a cluster could not be opened. Nothing was asked of it, so its kubeconfig is wrong.
func kubeconfigError(file string, err error) error {
	e := &steps.Error{Code: steps.CodeKubeconfig, Summary: "the kubeconfig cannot be used", Detail: err.Error(),
		Remedy: "give another file in the argument kubeconfig of the cluster block, or correct this one; " +
			"'kubectl --kubeconfig " + file + " cluster-info' should answer"}
	if _, statErr := os.Stat(file); errors.Is(statErr, fs.ErrNotExist) {
		e.Summary, e.Detail = "there is no kubeconfig", file+" does not exist"
		e.Remedy = "put the kubeconfig of a user there who may create tokens, service accounts and nodes: " +
			"kubeadm leaves one on the control plane as /etc/kubernetes/admin.conf. Or give another file in the " +
			"argument kubeconfig of the cluster block; it is read on this machine only"
	}
	return e
}

// soon is how long an agent may take until it is said what happens.
const soon = 2 * time.Second

// Agent returns a function that finds the agent for a node. A sandbox runs no programs
// and gets a small stand-in, so that the quickstart needs no cross-build.
//
// Where an agent is not at hand at once, as it has to be built, that is said.
func Agent(ctx context.Context, agent Agents, say func(string)) func(os, arch, connection string) (
	steps.Source, error) {
	return func(goos, arch, connection string) (steps.Source, error) {
		if connection == "sandbox" {
			return sandboxAgent()
		}
		t := time.AfterFunc(soon, func() {
			say("Building the agent for " + goos + "/" + arch + " from source. The first time takes a minute or two.")
		})
		defer t.Stop()
		path, digest, err := agent.orOwn()(ctx, goos, arch)
		if err == nil {
			err = agentbin.Unpack(path, digest) // the step that installs it reads this file
		}
		if err != nil {
			return steps.Source{}, err
		}
		return steps.Source{File: path, SHA256: digest}, nil
	}
}

const sandboxAgentText = "stand-in for nodejoin-agent in a sandbox: a sandbox simulates its programs\n"

func sandboxAgent() (steps.Source, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	path := filepath.Join(dir, "nodejoin", "sandbox-agent.txt")
	sum := sha256.Sum256([]byte(sandboxAgentText))
	digest := hex.EncodeToString(sum[:])
	if have, err := os.ReadFile(path); err == nil && string(have) == sandboxAgentText {
		return steps.Source{File: path, SHA256: digest}, nil
	}
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = atomicfile.Write(path, []byte(sandboxAgentText), 0o600)
	}
	return steps.Source{File: path, SHA256: digest}, agentbin.Unusable(filepath.Dir(path), err)
}
