package recipe

import (
	"encoding/base64"
	"fmt"
	"net/url"
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

// LoginHosts are the hosts at which the credentials count: the mirrors, or the registry if it has none.
func (r Registry) LoginHosts() []string {
	if len(r.Mirrors) == 0 {
		return []string{templates.RegistryHosts{Registry: r.Host}.Server()}
	}
	var hosts []string
	for _, m := range r.Mirrors {
		if u, err := url.Parse(m); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// authorization is the header that logs in at the registry; "" if hosts.toml has none. containerd sends it with each
// request, from 2.1 on also to the server that gives tokens for the registry. Older versions get a user from
// registryLogins.
func (b *build) authorization(r Registry) string {
	switch {
	case r.Token != "":
		return "Bearer " + r.Token
	case r.Username != "" && b.containerd.HeaderForTokens:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(r.Username+":"+r.Password))
	}
	return ""
}

// registryLogins are the users of registries as fields of config.toml, for versions whose hosts.toml cannot log in at
// every registry; nil = none. containerd has deprecated them since 1.5 and reads them up to 2.6 (v2.4.2
// pkg/deprecation).
func (b *build) registryLogins() map[string]any {
	configs := map[string]any{}
	for _, r := range b.in.Runtime.Registries {
		if r.Username == "" || b.containerd.HeaderForTokens {
			continue
		}
		for _, h := range r.LoginHosts() {
			configs[h] = map[string]any{"auth": map[string]any{"username": r.Username, "password": r.Password}}
		}
	}
	if len(configs) == 0 {
		return nil
	}
	plugin := "io.containerd.cri.v1.images"
	if b.containerd.Schema == 2 {
		plugin = "io.containerd.grpc.v1.cri"
	}
	registry := map[string]any{"registry": map[string]any{"configs": configs}}
	return map[string]any{"plugins": map[string]any{plugin: registry}}
}

// registry adds the files of one registry. With credentials, they are private.
func (b *build) registry(id, dir string, access host.Access, r Registry, after string) {
	b.add(id+"_dir", "directory", "Folder of registry "+r.Host, &kinds.Directory{Path: dir, Access: access}, after)
	hosts, needs := templates.RegistryHosts{Registry: r.Host, Mirrors: r.Mirrors, Authorization: b.authorization(r)},
		[]string{id + "_dir"}
	if r.CA != "" {
		hosts.CA, needs = host.Join(b.in.OS, dir, "ca.crt"), append(needs, id+"_ca")
		b.add(id+"_ca", "file", "CA of registry "+r.Host, &kinds.File{Path: hosts.CA, Content: r.CA}, id+"_dir")
	}
	if r.Key != "" {
		hosts.Certificate, hosts.Key = host.Join(b.in.OS, dir, "client.crt"), host.Join(b.in.OS, dir, "client.key")
		needs = append(needs, id+"_certificate", id+"_key")
		b.add(id+"_certificate", "file", "Client certificate for registry "+r.Host,
			&kinds.File{Path: hosts.Certificate, Content: r.Certificate}, id+"_dir")
		b.add(id+"_key", "file", "Client key for registry "+r.Host,
			&kinds.File{Path: hosts.Key, Content: r.Key, Access: host.AccessPrivate, Sensitive: true}, id+"_dir")
	}
	file := &kinds.File{Path: host.Join(b.in.OS, dir, "hosts.toml"), Content: b.render(hosts)}
	if hosts.Authorization != "" {
		file.Access, file.Sensitive = host.AccessPrivate, true
	}
	b.add(id, "file", "Registry "+r.Host, file, needs...)
}
