package templates

import (
	"net/url"
	"strings"
)

// RegistryHosts is containerd's hosts.toml of one registry (containerd docs/hosts.md).
type RegistryHosts struct {
	Registry string   // "docker.io" or "registry.example:5000"
	Mirrors  []string // URLs that are tried first, in order; the registry itself comes last
	CA       string   // file with the CA of the mirrors, or of the registry if it has none; "" = the machine's

	// For the mirrors, or for the registry if it has none; "" = none.
	Authorization    string // the header's value
	Certificate, Key string // files of the client
}

// Render returns the file's text.
func (r RegistryHosts) Render() (string, error) { return render("hosts.toml", r) }

// Server is the host of the registry's API. Images of docker.io come from another host (containerd
// core/remotes/docker/config/hosts.go), which the file has to name.
func (r RegistryHosts) Server() string {
	if r.Registry == "docker.io" {
		return "registry-1.docker.io"
	}
	return r.Registry
}

// Rooted reports whether a mirror's URL is itself the root of its API, as for a proxy of several registries:
// https://images.example/v2/k8s. To other paths containerd adds /v2 (containerd
// core/remotes/docker/config/hosts.go).
func (RegistryHosts) Rooted(mirror string) bool {
	u, err := url.Parse(mirror)
	return err == nil && strings.Contains(strings.TrimSuffix(u.Path, "/"), "/v2/")
}

// Crictl is crictl's configuration (cri-tools docs/crictl.md).
type Crictl struct {
	Endpoint string // of the runtime and its images
}

// Render returns the file's text.
func (c Crictl) Render() (string, error) { return render("crictl.yaml", c) }
