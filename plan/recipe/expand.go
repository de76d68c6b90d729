package recipe

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/record"
)

// Names of the artifacts that a recipe asks for besides those of plan/compat.
const AgentArtifact = "agent" // the nodejoin-agent program, for hosts that run a supervised service

// MissingArtifactError says that the plan names no artifact that a recipe needs.
type MissingArtifactError struct{ Name string }

func (e *MissingArtifactError) Error() string {
	return fmt.Sprintf("the artifact %q is needed and the plan does not give it", e.Name)
}

// UnsupportedError says that no recipe exists for what the plan asks.
type UnsupportedError struct {
	What string // "network", "runtime", "cluster" or "node": the block at fault
	Why  string
}

func (e *UnsupportedError) Error() string { return e.What + ": " + e.Why }

// Artifacts names the artifacts that Expand will ask for, sorted.
func Artifacts(in Input) []string {
	if in.OS == "linux" {
		names := linuxArtifacts(in)
		slices.Sort(names)
		return names
	}
	names := slices.Concat([]string{compat.KubernetesNode}, runtimeArtifacts(in), networkArtifacts(in), addonArtifacts(in))
	slices.Sort(names)
	return slices.Compact(names)
}

// Expand gives the steps of one node, in an order in which they can run: every
// step comes after those that it names in After. The same input gives the same
// steps. It touches nothing.
func Expand(in Input) ([]steps.Spec, error) {
	s, err := NewShape(in)
	if err != nil {
		return nil, err
	}
	return s.Expand(Own{in.Node, in.ManagementIP, in.ManagementIP6}, 0)
}

// Check refuses what no recipe can do. The compiler finds most of it before, with a
// better place; a recipe holds by itself.
func Check(in Input) error {
	if err := errors.Join(checkRuntime(in), checkNetwork(in), checkJoin(in)); err != nil {
		return err
	}
	switch in.OS {
	case "windows":
	case "linux":
		if err := checkLinux(in); err != nil {
			return err
		}
	default:
		return &UnsupportedError{"node", fmt.Sprintf("there is no recipe for OS %q", in.OS)}
	}
	if u, err := url.Parse(in.APIServer); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("api_server %q is no https URL", in.APIServer)
	}
	return nil
}

// build collects the steps of one node.
type build struct {
	in         Input
	kubernetes compat.Kubernetes
	containerd compat.Containerd // zero where the runtime is another
	runtime    runtimeFacts
	specs      []steps.Spec
	before     map[string]bool // ids of the settings, which come before services
	claimed    []record.Key    // what the settings claim
	left       map[string]bool // ids that the settings leave out
	err        error           // the first one; later calls do nothing
}

func newBuild(in Input) (*build, error) {
	k, err := compat.Kubelet(in.Kubernetes)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	if !k.Supported {
		floor, _ := compat.KubernetesRange()
		return nil, &UnsupportedError{"cluster", fmt.Sprintf("Kubernetes %s is older than %s, the oldest version with a recipe", in.Kubernetes, floor)}
	}
	b := &build{in: in, kubernetes: k}
	if err := b.lookupRuntime(); err != nil {
		return nil, err
	}
	return b, nil
}

// add appends a step. After are the ids that come first; those of steps that the
// settings of the machine leave out do not count.
func (b *build) add(id, kind, title string, args any, after ...string) *steps.Spec {
	if s, ok := args.(*steps.Service); ok {
		args = b.withSettings(s)
	}
	switch args.(type) {
	case *steps.Service, *steps.Archive, *steps.Binary: // they start with the settings, or are fetched through the proxy
		after = slices.AppendSeq(slices.Clone(after), maps.Keys(b.before))
	}
	after = slices.DeleteFunc(slices.Clone(after), func(id string) bool { return b.left[id] })
	slices.Sort(after)
	b.specs = append(b.specs, steps.Spec{ID: id, Kind: kind, Title: title, Args: steps.MustArgs(args), After: slices.Compact(after), Source: b.in.Source})
	return &b.specs[len(b.specs)-1]
}

// fail keeps the first error.
func (b *build) fail(err error) {
	if b.err == nil && err != nil {
		b.err = err
	}
}

// render takes a rendered text or notes the error.
func (b *build) render(r interface{ Render() (string, error) }) string {
	text, err := r.Render()
	b.fail(err)
	return text
}

// artifact is the source of a named artifact.
func (b *build) artifact(name string) steps.Source {
	src, ok := b.in.Artifacts[name]
	if !ok {
		b.fail(&MissingArtifactError{name})
	}
	return src
}

// isArchive tells whether an artifact is an archive, by its name.
func isArchive(src steps.Source) bool {
	name := strings.ToLower(src.Name())
	if src.URL != "" {
		name, _, _ = strings.Cut(name, "?")
	}
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".zip"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// nodeIPs are the addresses that the kubelet reports, as its flag takes them.
func (b *build) nodeIPs() string { return strings.Join(b.addresses(), ",") }

// addresses of the node, that of IPv4 first.
func (b *build) addresses() []string {
	if b.in.ManagementIP6 == "" {
		return []string{b.managementIP()}
	}
	return []string{b.managementIP(), b.in.ManagementIP6}
}

// managementIP of the node, or the reference to the host's own.
func (b *build) managementIP() string {
	if b.in.ManagementIP != "" {
		return b.in.ManagementIP
	}
	return steps.Ref("fact.management_ip")
}
