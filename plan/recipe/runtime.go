package recipe

import (
	"fmt"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

// Runtime is the container runtime.
type Runtime struct {
	Kind    string // "containerd", "docker" or "mcr" (Mirantis' docker)
	Version string // "2.2.1"; "" if already installed
	Pause   string // pause image; "" = by OS and build
	Crictl  string // version of crictl beside containerd; "" = none
	// KeepCrictl: it stays when the plan no longer has it.
	KeepCrictl bool
	// Registries, in the order of the plan; containerd only.
	Registries []Registry
	// Installed: docker is already a service of the machine and nodejoin does not touch it.
	Installed bool
	// Config is merged by key into docker's daemon.json.
	Config map[string]any
}

// Registry says where the images of one registry come from.
type Registry struct {
	Host    string   // as images name it, "docker.io" or "registry.example:5000"
	Mirrors []string // URLs that are tried before it
	CA      string   // PEM, for the mirrors, or for the registry itself if it has none; "" = the machine's
	Keep    bool     // its files stay when the plan no longer has it
}

// runtimeFacts are what the rest of a recipe needs to know about the runtime.
type runtimeFacts struct {
	service string // service that the kubelet depends on
	ready   string // id of its gate
	api     string // CRI version that kubelet and runtime speak; "" = docker
}

func checkRuntime(in Input) error {
	switch in.Runtime.Kind {
	case "containerd":
	case "docker", "mcr":
		if in.OS != "windows" {
			return &UnsupportedError{"runtime", fmt.Sprintf("%s is not supported on %s; use containerd",
				in.Runtime.Kind, in.OS)}
		}
	default:
		return &UnsupportedError{"runtime",
			fmt.Sprintf("unknown runtime %q; use containerd, docker or mcr", in.Runtime.Kind)}
	}
	return nil
}

// lookupRuntime checks the runtime against the Kubernetes version and looks up its facts.
func (b *build) lookupRuntime() error {
	in := b.in
	if in.Runtime.Kind != "containerd" {
		if v := compat.CheckDocker(in.Kubernetes); !v.Accepted() {
			return &UnsupportedError{"runtime", v.Why}
		}
		if in.Network.sdn() {
			return &UnsupportedError{"runtime",
				fmt.Sprintf("the CNI plugin %s does not support docker's containers, which have no HNS namespace; use %s",
					in.Network.delegate(), Delegates(in.Network.Backend)[0])}
		}
		b.runtime = runtimeFacts{service: "docker", ready: "docker_ready"}
		return nil
	}
	c, err := compat.LookupContainerd(in.Runtime.Version)
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	if v := compat.CheckContainerd(in.Kubernetes, in.Runtime.Version); !v.Accepted() {
		return &UnsupportedError{"runtime", v.Why}
	}
	b.containerd = c
	b.runtime = runtimeFacts{service: "containerd", ready: "containerd_ready", api: compat.RuntimeAPI(b.kubernetes, c)}
	if len(in.Runtime.Registries) > 0 && !c.ConfigPath {
		return &UnsupportedError{"runtime",
			fmt.Sprintf("containerd %s does not read hosts.toml files, so registries cannot be configured", in.Runtime.Version)}
	}
	return nil
}

// runtimeArtifacts returns the names of the runtime's artifacts.
func runtimeArtifacts(in Input) []string {
	switch {
	case in.Runtime.Installed:
		return nil
	case in.Runtime.Kind != "containerd":
		return []string{in.Runtime.Kind}
	case in.Runtime.Crictl != "":
		return []string{compat.ContainerdName, compat.Crictl}
	}
	return []string{compat.ContainerdName}
}

// pause returns the pause image.
func (b *build) pause() string {
	if b.in.Runtime.Pause != "" {
		return b.in.Runtime.Pause
	}
	return compat.PauseImage(b.in.OS, b.in.Build)
}

// registries adds a folder with a hosts.toml for each registry, which containerd reads at every pull. The
// folder is named after the registry, on Windows without colons (containerd
// core/remotes/docker/config/config_windows.go and config_unix.go). after is the step that creates
// containerd's own folder.
func (b *build) registries(after string) {
	base, access := containerdCerts, host.AccessPrivate
	if b.in.OS == "linux" {
		base, access = linContainerd+"/certs.d", host.AccessDefault
	}
	for i, r := range b.in.Runtime.Registries {
		name := r.Host
		if b.in.OS == "windows" {
			name = strings.ReplaceAll(name, ":", "")
		}
		id, dir := fmt.Sprintf("registry_%d", i+1), host.Join(b.in.OS, base, name)
		b.keeping(r.Keep, func() { b.registry(id, dir, access, r, after) })
	}
}

// registry adds the files of one registry.
func (b *build) registry(id, dir string, access host.Access, r Registry, after string) {
	b.add(id+"_dir", "directory", "Folder of registry "+r.Host, &kinds.Directory{Path: dir, Access: access}, after)
	hosts, needs := templates.RegistryHosts{Registry: r.Host, Mirrors: r.Mirrors}, []string{id + "_dir"}
	if r.CA != "" {
		hosts.CA, needs = host.Join(b.in.OS, dir, "ca.crt"), append(needs, id+"_ca")
		b.add(id+"_ca", "file", "CA of registry "+r.Host, &kinds.File{Path: hosts.CA, Content: r.CA}, id+"_dir")
	}
	b.add(id, "file", "Registry "+r.Host,
		&kinds.File{Path: host.Join(b.in.OS, dir, "hosts.toml"), Content: b.render(hosts)}, needs...)
}
