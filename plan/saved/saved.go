// Package saved is the file that `plan --out` writes and `apply` reads: which plan it was, what it asked for
// and what a check of its hosts found, as digests. It is pure: it connects to nothing.
//
// The file contains no secrets. Sensitive contents are not part of its digests either, so that they cannot be
// guessed from them; apply reads them again.
package saved

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// FormatVersion is the version of the files that this package writes and reads.
const FormatVersion = "1"

// kind distinguishes a saved plan from other JSON.
const kind = "nodejoin saved plan"

// Plan is a saved plan.
type Plan struct {
	Kind          string `json:"kind"`
	FormatVersion string `json:"format_version"`
	Version       string `json:"nodejoin"` // version of nodejoin that made it
	Inputs
	Files   []File `json:"files"` // of the plan, sorted by name
	Data    []Data `json:"data,omitempty"`
	Cluster string `json:"cluster"` // digest of the cluster's settings
	Nodes   []Node `json:"nodes"`
	// Objects of the cluster are no longer in the plan, and are to be deleted.
	Objects []string `json:"objects,omitempty"`
}

// Inputs are what the plan was read with.
type Inputs struct {
	Path     string            `json:"path"` // absolute
	Vars     map[string]string `json:"vars,omitempty"`
	Secret   []string          `json:"secret_vars,omitempty"` // as given, and given again by apply
	VarFiles []string          `json:"var_files,omitempty"`   // absolute
	Targets  []string          `json:"targets,omitempty"`
	Skips    []string          `json:"skips,omitempty"`
	Shard    string            `json:"shard,omitempty"` // I/N
	// Environment is the one of --env; "" = none.
	Environment string `json:"environment,omitempty"`
}

// File is a plan file.
type File struct {
	Name   string `json:"name"` // relative to the plan's folder
	SHA256 string `json:"sha256"`
}

// Data is what a data block has read. There is no digest of sensitive data; apply reads it again, as other secrets.
type Data struct {
	Address string `json:"address"`
	SHA256  string `json:"sha256,omitempty"`
}

// Node is one machine.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Reach   string `json:"reach"` // digest of its connection
	Facts   string `json:"facts"` // digest of the machine's identity
	Steps   []Step `json:"steps"`
	// Removals are the keys of what the plan no longer names and the apply removes.
	Removals []string `json:"removals,omitempty"`
}

// Step is one step with what its check found.
type Step struct {
	ID     string       `json:"id"`
	Spec   string       `json:"spec"` // digest of what the plan asks for
	Action steps.Action `json:"action,omitempty"`
	Change string       `json:"change,omitempty"` // digest of the difference
}

// Host is what a check of a node found.
type Host struct {
	Facts   host.Facts
	Results []steps.Result
	// Removals are the keys of what is to be removed.
	Removals []string
}

// Make describes a compiled plan and what a check of its hosts found; hosts are in the order of the plan's
// nodes and were checked without an error. objects are those of the cluster that are to be deleted.
func Make(version string, in Inputs, files []File, c *plan.Compiled, hosts []Host, objects []string) (*Plan, error) {
	p := &Plan{Kind: kind, FormatVersion: FormatVersion, Version: version, Inputs: in, Files: files, Nodes: []Node{},
		Objects: objects}
	slices.SortFunc(p.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range c.Data {
		p.Data = append(p.Data, Data{d.Address, d.SHA256})
	}
	if c.Cluster != nil {
		k := *c.Cluster
		k.Source = ""
		p.Cluster = digest(k)
	}
	for i, n := range c.Nodes {
		r := n.Connection
		r.Source = ""
		out := Node{Name: n.Name, Address: n.Address, Reach: digest([]any{n.OS, n.Arch, n.DataDir, r}), Steps: []Step{}}
		found := map[string]steps.Result{}
		if i < len(hosts) {
			f := hosts[i].Facts
			out.Facts = digest([]string{f.OS, f.Arch, f.Hostname, f.Build, f.ManagementIP, f.DataDir})
			out.Removals = hosts[i].Removals
			for _, r := range hosts[i].Results {
				found[r.ID] = r
			}
		}
		for _, s := range n.Steps {
			spec, err := specDigest(s)
			if err != nil {
				return nil, fmt.Errorf("%s.%s: %w", n.Address, s.ID, err)
			}
			change := found[s.ID].Change
			out.Steps = append(out.Steps, Step{ID: s.ID, Spec: spec, Action: change.Action, Change: changeDigest(change)})
		}
		p.Nodes = append(p.Nodes, out)
	}
	return p, nil
}

// specDigest leaves out secrets and the position in the plan.
func specDigest(s steps.Spec) (string, error) {
	step, k, err := kinds.Catalog().Decode(s)
	if err != nil {
		return "", err
	}
	if k.Secrets != nil {
		k.Secrets(step, func(string) string { return "" })
	}
	s.Args, s.Source, s.Title = steps.Args{}, "", ""
	return digest([]any{s, step}), nil
}

// changeDigest is the digest of what is shown of a change. What a gate observes while it waits varies, and
// digests of contents could reveal secrets: both are left out.
func changeDigest(c steps.Change) string {
	switch c.Action {
	case steps.ActionNone, steps.ActionWait, steps.ActionUnknown:
		return ""
	}
	return digest([]any{c.Action, c.Diffs, c.Unknown, c.Touches, c.Blobs})
}

func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("saved: %T: %v", v, err)) // plain data
	}
	return Digest(b)
}

// Digest is the sha256 of b in hex.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Encode returns the file's text.
func (p *Plan) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	return append(b, '\n'), err
}

// MaxSize bounds the text of a saved plan (bytes); 10,000 nodes of 55 steps take about 110 MB.
const MaxSize = 1 << 30

// ErrNotSaved is the error for a text that is not a saved plan.
var ErrNotSaved = errors.New("not a saved plan; create one with 'nodejoin plan --out FILE'")

// Decode parses the text of Encode, in this format version.
func Decode(b []byte) (*Plan, error) {
	var head struct {
		Kind          string `json:"kind"`
		FormatVersion string `json:"format_version"`
		Version       string `json:"nodejoin"`
	}
	if json.Unmarshal(b, &head) != nil || head.Kind != kind {
		return nil, ErrNotSaved
	}
	if head.FormatVersion != FormatVersion {
		return nil, fmt.Errorf("it has the format %q of nodejoin %s, and this nodejoin reads %q; apply it with that "+
			"version, or plan again", head.FormatVersion, head.Version, FormatVersion)
	}
	p := &Plan{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if d.More() || p.Path == "" {
		return nil, errors.New("it is damaged: it is truncated, has trailing data, or names no plan")
	}
	return p, nil
}
