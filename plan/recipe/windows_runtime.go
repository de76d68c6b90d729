package recipe

import (
	"encoding/json"

	"nodejoin/plan/compat"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

// runtimeServices returns the services that the recipe registers for the runtime.
func (b *build) runtimeServices() []string {
	if b.in.Runtime.Installed {
		return nil
	}
	return []string{b.runtime.service}
}

// runtimeRequired returns the services that the machine must already have.
func (b *build) runtimeRequired() []string {
	if b.in.Runtime.Installed {
		return []string{b.runtime.service}
	}
	return nil
}

func (b *build) runtimeFolders() []folder {
	if b.in.Runtime.Installed {
		return nil
	}
	if b.in.Runtime.Kind != "containerd" {
		return []folder{{"docker_conf_dir", winDockerConf, "Folder of docker's configuration", host.AccessPrivate}}
	}
	return []folder{{"containerd_log_dir", b.logDir("containerd"), "Folder of containerd's log", host.AccessPrivate}}
}

// winRuntimeFiles adds the runtime's programs.
func (b *build) winRuntimeFiles() {
	r := b.in.Runtime
	switch {
	case r.Installed:
	case r.Kind != "containerd":
		b.archive("docker_files", r.title(), kinds.Archive{Source: b.artifact(r.Kind),
			// Mirantis' programs may have libraries beside them
			To: winDocker, Strip: 1, Include: []string{"docker/*.exe", "docker/*.dll"}, Services: []string{"docker"}},
			"require")
	default:
		b.archive("containerd_files", r.title(), kinds.Archive{Source: b.artifact(compat.ContainerdName),
			To: winContainerd, Strip: 1, Include: []string{"bin/*.exe"}, Services: []string{"containerd"}}, "require")
	}
	if r.Crictl != "" {
		b.keeping(r.KeepCrictl, func() {
			b.archive("crictl", "crictl "+r.Crictl,
				kinds.Archive{Source: b.artifact(compat.Crictl), To: winBin, Include: []string{"crictl.exe"}}, "bin_dir")
		})
	}
}

func (r Runtime) title() string {
	if r.Kind == "mcr" {
		return "Mirantis Container Runtime " + r.Version
	}
	return r.Kind + " " + r.Version
}

// winRuntime adds the runtime, up to its pipe.
func (b *build) winRuntime() {
	if b.in.Runtime.Kind != "containerd" {
		b.winDocker()
		return
	}
	config, log := winContainerd+`\config.toml`, b.logFile("containerd")
	b.containerdConfig(config)
	b.add("containerd", "service", "Service containerd", &kinds.Service{
		ServiceConfig: winService("containerd", "Container runtime", []string{winContainerd + `\containerd.exe`,
			"--run-service", "--service-name", "containerd", "--config", config, "--log-file", log}),
		Watch: []string{winContainerd + `\containerd.exe`, winContainerd + `\containerd-shim-runhcs-v1.exe`, config},
		Log:   log,
		Pods:  containerdPipe,
		Makes: []string{winContainerdData, winCNIState, b.logDir("containerd")}, // the CNI plugins are its child processes
	}, "containerd_files", "containerd_config", "containerd_log_dir")
	b.add("containerd_ready", "pipe_ready", "containerd answers", &kinds.PipeReady{
		Address: containerdPipe, GRPCMethod: "/runtime." + b.runtime.api + ".RuntimeService/Version",
		Service: "containerd", Log: log,
	}, "containerd")
	b.registries("containerd_files")
	if b.in.Runtime.Crictl != "" {
		// Beside the program, where crictl looks when the user has none (cri-tools pkg/common/config.go).
		b.add("crictl_config", "file", "crictl configuration",
			&kinds.File{Path: winBin + `\crictl.yaml`, Content: b.render(templates.Crictl{
				Endpoint: containerdEndpoint})}, "bin_dir").Keep = b.in.Runtime.KeepCrictl
	}
}

func (b *build) containerdConfig(path string) {
	c := templates.Containerd{Schema: b.containerd.Schema, BinDirs: b.containerd.BinDirs,
		Root: winContainerdData + `\root`, State: winContainerdData + `\state`, Address: containerdPipe,
		Pause: b.pause(), CNIBin: winCNIBin, CNIConf: winCNIConf}
	if len(b.in.Runtime.Registries) > 0 {
		c.ConfigPath = containerdCerts
	}
	b.runtimeConfig(path, winContainerd+`\containerd.exe`, b.render(c), "containerd_files")
}

// runtimeConfig adds containerd's configuration: what is rendered, with what the plan gives of it. With passwords of
// registries in it, it is private. What the plan gives containerd itself must accept before the file has it.
func (b *build) runtimeConfig(path, program, text string, after ...string) {
	file := &kinds.File{Path: path, Content: text}
	own := b.in.Runtime.Config
	if logins := b.registryLogins(); logins != nil {
		own = Merge(logins, own)
		file.Access, file.Sensitive = host.AccessPrivate, true
	}
	if len(own) > 0 {
		var err error
		file.Content, err = templates.MergeTOML(text,
			func(base map[string]any) map[string]any { return prune(Merge(base, own)) })
		b.fail(err)
	}
	if len(b.in.Runtime.Config) > 0 {
		file.CheckedBy = []string{program, "--config", kinds.CheckedFile, "config", "dump"}
		after = append(after, "data_dir", "containerd_files")
	}
	b.add("containerd_config", "file", "containerd configuration", file, after...)
}

// winDocker adds dockerd as a service, or uses the one that the machine has. It logs to the Windows event log
// (moby cmd/dockerd/service_windows.go).
func (b *build) winDocker() {
	gate := &kinds.PipeReady{Address: dockerPipe, Service: "docker"}
	if b.in.Runtime.Installed {
		b.add("docker_ready", "pipe_ready", "docker answers", gate, "require")
		return
	}
	config := winDockerConf + `\daemon.json`
	text, err := json.MarshalIndent(
		prune(Merge(map[string]any{"hosts": []any{dockerEndpoint}, "data-root": winDockerData}, b.in.Runtime.Config)), "",
		"  ")
	b.fail(err)
	b.add("docker_config", "file", "docker configuration", &kinds.File{Path: config, Content: string(text) + "\n"},
		"docker_conf_dir")
	docker := &kinds.Service{
		ServiceConfig: winService("docker", "Container runtime", []string{winDocker + `\dockerd.exe`,
			"--run-service", "--service-name", "docker", "--config-file", config}),
		Watch: []string{winDocker + `\dockerd.exe`, config},
		Makes: []string{winDockerData},
	}
	if b.in.Runtime.KeepData {
		docker.Keeps = docker.Makes
	}
	b.add("docker", "service", "Service docker", docker, "docker_files", "docker_config")
	b.add("docker_ready", "pipe_ready", "docker answers", gate, "docker")
}
