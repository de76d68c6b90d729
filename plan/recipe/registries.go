package recipe

import (
	"fmt"
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

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
