package jsonout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"nodejoin/plan"
	"nodejoin/plan/block"
	"nodejoin/plan/lock"
	"nodejoin/plan/render"
	"nodejoin/steps"
	"nodejoin/steps/collect"
	"nodejoin/steps/kube"
)

// desired is what a plan says, whatever its hosts are. Policies judge it.
type desired struct {
	Cluster   *desiredCluster   `json:"cluster,omitempty"`
	Rollout   desiredRollout    `json:"rollout"`
	Artifacts []desiredArtifact `json:"artifacts"`
	Nodes     []desiredNode     `json:"nodes"`
}

type desiredCluster struct {
	Name       string `json:"name"`
	Kubernetes string `json:"kubernetes"` // "1.36.3"
	Runtime    string `json:"runtime"`
	APIServer  string `json:"api_server"`
	CAPinned   bool   `json:"ca_pinned"`
	Source     string `json:"source"`
}

type desiredRollout struct {
	MaxUnavailable int `json:"max_unavailable"`
	MaxFailures    int `json:"max_failures"`
	// Waves are their sizes in Nodes; the last one repeats.
	Waves []int   `json:"waves,omitempty"`
	Pause float64 `json:"pause_seconds,omitempty"` // between two waves
}

// desiredArtifact is what the nodes of one platform install under one name.
type desiredArtifact struct {
	Name     string `json:"name"`
	Platform string `json:"platform"` // windows/amd64
	Version  string `json:"version,omitempty"`
	Address  string `json:"address"`
	SHA256   string `json:"sha256,omitempty"` // that the lock or the plan gives
	SHA512   string `json:"sha512,omitempty"`
	Locked   bool   `json:"locked"`
	Verified string `json:"verified"` // none, digest, checksum or signature
	Source   string `json:"source"`
}

type desiredNode struct {
	Node       string            `json:"node"`
	Address    string            `json:"address"`
	OS         string            `json:"os"`
	Arch       string            `json:"arch"`
	Build      string            `json:"build,omitempty"` // of Windows, that the plan gives
	Labels     map[string]string `json:"labels,omitempty"`
	Taints     []kube.Taint      `json:"taints,omitempty"`
	OnFailure  string            `json:"on_failure,omitempty"`
	Connection desiredConnection `json:"connection"`
	Source     string            `json:"source"`
	Steps      []desiredStep     `json:"steps"`
}

// desiredConnection is how a node is reached, without credentials.
type desiredConnection struct {
	Type          string `json:"type"` // ssh, winrm, local or sandbox
	Host          string `json:"host,omitempty"`
	User          string `json:"user,omitempty"`
	HostKeyPinned bool   `json:"host_key_pinned"`
	AcceptNew     bool   `json:"accept_new"`
	Source        string `json:"source"`
}

// desiredStep is a step with its arguments. Secrets are "(sensitive)", values of other steps "(known after STEP)".
type desiredStep struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	Args    any    `json:"args"`
	Source  string `json:"source,omitempty"`
}

func desiredOf(c *plan.Compiled) (*desired, error) {
	out := &desired{Rollout: desiredRollout{c.Rollout.MaxUnavailable, c.Rollout.MaxFailures, c.Rollout.Sizes,
		c.Rollout.Pause.Seconds()}, Artifacts: []desiredArtifact{},
		Nodes: []desiredNode{}}
	if v := c.Cluster; v != nil {
		out.Cluster = &desiredCluster{v.Name, v.Version, v.Runtime, v.APIServer, v.CAHash != "", v.Source}
	}
	for _, a := range c.Artifacts {
		out.Artifacts = append(out.Artifacts, artifactOf(a, c.Lock))
	}
	for _, n := range c.Nodes {
		node, err := nodeOf(n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Address, err)
		}
		out.Nodes = append(out.Nodes, node)
	}
	return out, nil
}

func artifactOf(a plan.Artifact, f *lock.File) desiredArtifact {
	out := desiredArtifact{Name: a.Name, Platform: a.OS + "/" + a.Arch, Version: a.Version,
		Address: steps.Redact(a.Address, nil), SHA256: a.Source.SHA256, SHA512: a.Source.SHA512, Verified: lock.None,
		Source: fmt.Sprintf("%s:%d,%d", filepath.Base(a.Range.Filename), a.Range.Start.Line, a.Range.Start.Column)}
	if out.SHA256+out.SHA512 != "" {
		out.Verified = lock.Digest
	}
	if e := f.Lookup(a.Name, out.Platform); e != nil {
		out.SHA256, out.SHA512, out.Locked, out.Verified = e.SHA256, e.SHA512, true, e.Verified
	}
	return out
}

func nodeOf(n block.Node) (desiredNode, error) {
	out := desiredNode{Node: n.Name, Address: n.Address, OS: n.OS, Arch: n.Arch, Build: n.Build, Labels: n.Labels,
		Taints: n.Taints, OnFailure: n.OnFailure, Source: n.Source, Steps: []desiredStep{},
		Connection: desiredConnection{Type: n.Connection.Type, Source: n.Connection.Source}}
	if s := n.Connection.SSH; s != nil {
		c := &out.Connection
		c.Host, c.User, c.HostKeyPinned, c.AcceptNew = s.Host, s.User, s.HostKey != "", s.AcceptNew
	}
	if w := n.Connection.WinRM; w != nil {
		c := &out.Connection
		c.Host, c.User, c.HostKeyPinned = w.Host, w.User, w.CertificateSHA256 != ""
	}
	known := collect.Secrets(n.Steps)
	for _, s := range n.Steps {
		args, err := argsOf(s, known)
		if err != nil {
			return out, fmt.Errorf("step %s: %w", s.ID, err)
		}
		out.Steps = append(out.Steps, desiredStep{n.Address + "." + s.ID, s.Kind, args, s.Source})
	}
	return out, nil
}

// argsOf are the arguments of a step without what is secret in them: a value may hold one beside other text.
func argsOf(s steps.Spec, known []string) (any, error) {
	b, err := render.Args(s)
	if err != nil {
		return nil, err
	}
	var args any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&args); err != nil {
		return nil, err
	}
	return withoutSecrets(args, known), nil
}

func withoutSecrets(v any, known []string) any {
	switch v := v.(type) {
	case string:
		name, value, ok := strings.Cut(v, "=") // as in the environment of a service
		if !ok {
			return steps.Redact(steps.ShowCredentials(v), known)
		}
		return steps.Redact(steps.ShowCredentials(name)+"="+steps.ShowCredentials(value), known)
	case []any:
		for i := range v {
			v[i] = withoutSecrets(v[i], known)
		}
	case map[string]any:
		for k := range v {
			v[k] = withoutSecrets(v[k], known)
		}
	}
	return v
}
