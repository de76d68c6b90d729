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
	"nodejoin/steps/kinds"
)

// AgentArtifact is the nodejoin-agent program, for hosts that run a supervised service. The other artifact
// names are in plan/compat.
const AgentArtifact = "agent"

// MissingArtifactError reports an artifact that a recipe needs and the plan does not give.
type MissingArtifactError struct{ Name string }

func (e *MissingArtifactError) Error() string {
	return fmt.Sprintf("the artifact %q is needed and the plan does not give it", e.Name)
}

// UnsupportedError reports a plan that no recipe can serve.
type UnsupportedError struct {
	What string // "network", "runtime", "cluster" or "node": the block at fault
	Why  string
}

func (e *UnsupportedError) Error() string { return e.What + ": " + e.Why }

// Artifacts returns the names of the artifacts that Expand needs, sorted.
func Artifacts(in Input) []string {
	if in.OS == "linux" {
		names := linuxArtifacts(in)
		slices.Sort(names)
		return names
	}
	names := slices.Concat([]string{compat.KubernetesNode}, runtimeArtifacts(in), networkArtifacts(in),
		addonArtifacts(in))
	slices.Sort(names)
	return slices.Compact(names)
}

// Check rejects what no recipe supports. The compiler reports most of it earlier and with a position; these
// checks also protect direct callers.
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
		return &UnsupportedError{"node", fmt.Sprintf("no recipe for OS %q", in.OS)}
	}
	if u, err := url.Parse(in.APIServer); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("api_server %q is not an https URL", in.APIServer)
	}
	return nil
}

// build collects the steps of one node.
type build struct {
	in         Input
	kubernetes compat.Kubernetes
	containerd compat.Containerd // zero for other runtimes
	runtime    runtimeFacts
	specs      []steps.Spec
	before     map[string]bool // ids of settings that come before services
	left       map[string]bool // ids that the settings skip
	err        error           // the first one; later calls do nothing
}

func newBuild(in Input) (*build, error) {
	k, err := compat.Kubelet(in.Kubernetes)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	if !k.Supported {
		floor, _ := compat.KubernetesRange()
		return nil, &UnsupportedError{"cluster",
			fmt.Sprintf("Kubernetes %s is older than %s, the oldest version with a recipe", in.Kubernetes, floor)}
	}
	b := &build{in: in, kubernetes: k}
	if err := b.lookupRuntime(); err != nil {
		return nil, err
	}
	return b, nil
}

// add appends a step that runs after the given ids. Ids that the settings skip are ignored.
func (b *build) add(id, kind, title string, args any, after ...string) *steps.Spec {
	if s, ok := args.(*kinds.Service); ok {
		args = b.withSettings(s)
	}
	switch args.(type) {
	// these read the settings at their start or are fetched through the proxy
	case *kinds.Service, *kinds.Archive, *kinds.Binary:
		after = slices.AppendSeq(slices.Clone(after), maps.Keys(b.before))
	}
	after = slices.DeleteFunc(slices.Clone(after), func(id string) bool { return b.left[id] })
	slices.Sort(after)
	b.specs = append(b.specs, steps.Spec{ID: id, Kind: kind, Title: title, Args: steps.MustArgs(args),
		After: slices.Compact(after), Source: b.in.Source})
	return &b.specs[len(b.specs)-1]
}

// keeping adds the steps of a block, whose things stay when the plan no longer has it if keep is set.
func (b *build) keeping(keep bool, add func()) {
	first := len(b.specs)
	add()
	for i := range b.specs[first:] {
		b.specs[first+i].Keep = keep
	}
}

// fail keeps the first error.
func (b *build) fail(err error) {
	if b.err == nil && err != nil {
		b.err = err
	}
}

// render returns the rendered text and records any error.
func (b *build) render(r interface{ Render() (string, error) }) string {
	text, err := r.Render()
	b.fail(err)
	return text
}

// artifact returns the source of an artifact and records an error if the plan gives none.
func (b *build) artifact(name string) steps.Source {
	src, ok := b.in.Artifacts[name]
	if !ok {
		b.fail(&MissingArtifactError{name})
	}
	return src
}

// isArchive reports whether the file name of an artifact is that of an archive.
func isArchive(src steps.Source) bool {
	name := strings.ToLower(src.Name())
	if src.URL != "" {
		name, _, _ = strings.Cut(name, "?")
	}
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".zip"}, func(end string) bool {
		return strings.HasSuffix(name, end)
	})
}

// nodeIPs returns the node's addresses in the format of the kubelet's --node-ip.
func (b *build) nodeIPs() string { return strings.Join(b.addresses(), ",") }

// addresses returns the addresses of the node, IPv4 first.
func (b *build) addresses() []string {
	if b.in.ManagementIP6 == "" {
		return []string{b.managementIP()}
	}
	return []string{b.managementIP(), b.in.ManagementIP6}
}

// managementIP returns the node's address, or a reference to the host's fact.
func (b *build) managementIP() string {
	if b.in.ManagementIP != "" {
		return b.in.ManagementIP
	}
	return steps.Ref("fact.management_ip")
}
