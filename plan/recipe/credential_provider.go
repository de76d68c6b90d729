package recipe

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// CredentialProviders are the providers whose program and images are known.
//
// Sources: kubernetes/cloud-provider-aws docs/credential_provider.md and cmd/ecr-credential-provider;
// kubernetes-sigs/cloud-provider-azure pkg/credentialprovider/azure_credentials.go and its documentation, "Credential
// provider"; kubernetes/cloud-provider-gcp cmd/auth-provider-gcp; kubernetes/kops
// nodeup/pkg/model/kubelet.go has the same for AWS and GCP.
var CredentialProviders = map[string]CredentialProvider{
	"ecr": {Program: "ecr-credential-provider", Cache: "12h", Args: []string{"get-credentials"},
		MatchImages: []string{"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn", "*.dkr.ecr-fips.*.amazonaws.com",
			"*.dkr.ecr.us-iso-east-1.c2s.ic.gov", "*.dkr.ecr.us-isob-east-1.sc2s.sgov.gov"}},
	"acr": {Program: "acr-credential-provider", Cache: "10m",
		MatchImages: []string{"*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"}},
	"gcr": {Program: "auth-provider-gcp", Cache: "1m", Args: []string{"get-credentials"},
		MatchImages: []string{"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"}},
}

// ProviderProgram is the name of the program of a provider; given is what its block says.
func ProviderProgram(name, given string) string {
	return cmp.Or(given, CredentialProviders[name].Program, name)
}

// Where the kubelet finds the programs and their configuration.
const (
	winProviders      = `C:\k\credential-provider`
	winProviderConfig = `C:\etc\kubernetes\credential-provider.json`
	linProviders      = "/usr/local/libexec/kubelet-credential-provider"
	linProviderConfig = "/etc/kubernetes/credential-provider.json"
)

// providerFlags are the kubelet's flags for its credential providers.
func (b *build) providerFlags() []string {
	if len(b.in.Settings.CredentialProviders) == 0 {
		return nil
	}
	dir, config := b.providerPaths()
	return []string{"--image-credential-provider-config=" + config, "--image-credential-provider-bin-dir=" + dir}
}

func (b *build) providerPaths() (dir, config string) {
	if b.in.OS == "linux" {
		return linProviders, linProviderConfig
	}
	return winProviders, winProviderConfig
}

// providerFile is the file that the kubelet reads when it starts; none if it has no credential providers.
func (b *build) providerFile() []string {
	if len(b.in.Settings.CredentialProviders) == 0 {
		return nil
	}
	_, config := b.providerPaths()
	return []string{config}
}

// credentialProviders adds the programs that the kubelet asks for credentials, and the file that names them.
func (b *build) credentialProviders() {
	if len(b.in.Settings.CredentialProviders) == 0 {
		return
	}
	dir, config := b.providerPaths()
	access, parent := host.AccessPrivate, "bin_dir"
	if b.in.OS == "linux" {
		access, parent = host.AccessDefault, "require"
	}
	b.add("credential_providers_dir", "directory", "Folder of credential providers",
		&kinds.Directory{Path: dir, Access: access}, parent)
	file := &kinds.File{Path: config, Access: host.AccessPrivate}
	var list []any
	for _, p := range b.in.Settings.CredentialProviders {
		program := ProviderProgram(p.Name, p.Program)
		for i, name := range b.providerFiles(program) {
			id := "credential_provider_" + p.Name
			if i > 0 {
				id = "credential_providers_plain_" + p.Name
			}
			s := b.add(id, "binary", "Credential provider "+name, &kinds.Binary{Source: p.Source,
				Path: host.Join(b.in.OS, dir, name)}, "credential_providers_dir")
			s.Retries, s.Source = downloadRetries(p.Source), p.Origin
			b.needs = append(b.needs, id)
		}
		list = append(list, b.providerFields(p, program))
		file.Sensitive = file.Sensitive || p.Sensitive
	}
	text, err := json.MarshalIndent(map[string]any{"kind": "CredentialProviderConfig", "providers": list,
		"apiVersion": "kubelet.config.k8s.io/" + b.kubernetes.CredentialProviders}, "", "  ")
	b.fail(err)
	file.Content = string(text) + "\n"
	b.add("credential_providers", "file", "Credential providers of the kubelet", file, "kubernetes_dir")
	b.needs = append(b.needs, "credential_providers")
}

// providerFiles are the files that one program is on the machine. Before 1.29, the kubelet on Windows looks for the
// name as it is and then starts the one with .exe, so both must be there.
func (b *build) providerFiles(program string) []string {
	switch {
	case b.in.OS != "windows":
		return []string{program}
	case b.kubernetes.ProviderByLookPath:
		return []string{program + ".exe"}
	}
	return []string{program + ".exe", program}
}

// providerFields are the fields of a provider in CredentialProviderConfig (k8s.io/kubelet config/v1/types.go).
func (b *build) providerFields(p CredentialProvider, program string) map[string]any {
	usual := CredentialProviders[p.Name]
	images, args := p.MatchImages, p.Args
	if images == nil {
		images = usual.MatchImages
	}
	if args == nil {
		args = usual.Args
	}
	fields := map[string]any{"name": program, "matchImages": images,
		"apiVersion":           "credentialprovider.kubelet.k8s.io/" + b.kubernetes.CredentialProviders,
		"defaultCacheDuration": cmp.Or(p.Cache, usual.Cache, "0s")}
	if len(args) > 0 {
		fields["args"] = args
	}
	var env []any
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		env = append(env, map[string]any{"name": name, "value": p.Env[name]})
	}
	if env != nil {
		fields["env"] = env
	}
	return prune(Merge(fields, p.Config))
}
