package compat

// advice says what to do instead of using a flag. source is in addition to the table of flags.
type advice struct {
	instead string // if it is deprecated or removed
	before  string // while the version does not have it yet
	source  string
}

// flagMistakes are wrong names from popular guides that are too far from the right ones for a spelling
// suggestion.
var flagMistakes = map[string]map[string]string{
	KubeletProgram: {
		// "sc.exe create kubelet binPath= ... --service"; the name is windows-service since 1.13
		"service": "windows-service",
		// Kubernetes' introduction to Windows, resource reservations; so are the next ones
		"kubelet-reserve":        "kube-reserved",
		"kubelet-reserved":       "kube-reserved",
		"system-reserve":         "system-reserved",
		"enforce-node-allocable": "enforce-node-allocatable",
		"cri-socket":             "container-runtime-endpoint",
		"register-taints":        "register-with-taints",
		"taints":                 "register-with-taints",
		"labels":                 "node-labels",
		"node-label":             "node-labels",
		"node-name":              "hostname-override",
		"runtime-endpoint":       "container-runtime-endpoint",
		"pause-image":            "pod-infra-container-image",
		"resolve-conf":           "resolv-conf",
		"bootstrap-kube-config":  "bootstrap-kubeconfig",
		"windows-priority-class": "windows-priorityclass",
	},
	KubeProxyProgram: {
		"service":                "windows-service",
		"sourcevip":              "source-vip",
		"networkname":            "network-name",
		"dsr":                    "enable-dsr",
		"enabledsr":              "enable-dsr",
		"node-name":              "hostname-override",
		"mode":                   "proxy-mode",
		"pod-cidr":               "cluster-cidr",
		"root-hns-endpoint-name": "root-hnsendpoint-name",
	},
}

const (
	cniSection = "bin_dirs (bin_dir before containerd 2.1) and conf_dir in the CNI section of " +
		"containerd's configuration"
	logRunner     = "run the program through kube-log-runner -log-file=FILE"
	sandboxImage  = "the sandbox image in containerd's configuration"
	endpoint      = "--container-runtime-endpoint=npipe:////./pipe/containerd-containerd"
	cri           = "kubernetes/kubernetes#106907, CHANGELOG-1.24: dockershim removed"
	klogFlags     = "kubernetes/kubernetes#112120"
	imageLifetime = "--eviction-hard or evictionHard in the configuration file"
)

// flagAdvice is keyed by program and flag. A flag that simply moved into the configuration file needs no row:
// fieldOfFlag finds the field.
var flagAdvice = map[string]map[string]advice{
	KubeletProgram: withKlog(map[string]advice{
		"allow-privileged": {instead: "leave it out; the cluster's admission decides",
			source: "CHANGELOG-1.15"},
		"network-plugin":     {instead: cniSection, source: cri},
		"network-plugin-mtu": {instead: "the mtu of the CNI configuration", source: cri},
		"cni-bin-dir":        {instead: cniSection, source: cri},
		"cni-conf-dir":       {instead: cniSection, source: cri},
		"cni-cache-dir":      {instead: cniSection, source: cri},
		"image-pull-progress-deadline": {instead: "image_pull_progress_timeout in containerd's configuration",
			source: cri},
		"docker-endpoint":                        {instead: endpoint, source: cri},
		"experimental-dockershim":                {instead: endpoint, source: cri},
		"experimental-dockershim-root-directory": {instead: endpoint, source: cri},
		"container-runtime":                      {instead: endpoint, source: "kubernetes/kubernetes#114017"},
		"pod-infra-container-image":              {instead: sandboxImage, source: "kubernetes/kubernetes#133779"},
		"cloud-config": {instead: "--cloud-provider=external and a cloud controller manager",
			source: "rancher/rke2#9591"},
		"azure-container-registry-config": {instead: "--image-credential-provider-config and " +
			"--image-credential-provider-bin-dir"},
		"dynamic-config-dir": {instead: "--config", source: "CHANGELOG-1.24"},
		"register-schedulable": {
			instead: "--register-with-taints=node.kubernetes.io/unschedulable:NoSchedule"},
		"seccomp-profile-root":                     {instead: "leave it out; Windows has no seccomp"},
		"experimental-bootstrap-kubeconfig":        {instead: "--bootstrap-kubeconfig"},
		"bootstrap-checkpoint-path":                {instead: "leave it out"},
		"containerized":                            {instead: "leave it out"},
		"non-masquerade-cidr":                      {instead: "ip-masquerade settings of the CNI plugin"},
		"iptables-masquerade-bit":                  {instead: "leave it out; Windows has no iptables"},
		"iptables-drop-bit":                        {instead: "leave it out; Windows has no iptables"},
		"keep-terminated-pod-volumes":              {instead: "leave it out"},
		"minimum-container-ttl-duration":           {instead: imageLifetime},
		"maximum-dead-containers":                  {instead: imageLifetime},
		"maximum-dead-containers-per-container":    {instead: imageLifetime},
		"experimental-mounter-path":                {instead: "leave it out"},
		"experimental-allocatable-ignore-eviction": {instead: "--eviction-hard or evictionHard in the configuration file"},
	}),
	KubeProxyProgram: withKlog(map[string]advice{
		"healthz-port":            {instead: "--healthz-bind-address=IP:PORT"},
		"metrics-port":            {instead: "--metrics-bind-address=IP:PORT"},
		"cleanup-iptables":        {instead: "--cleanup"},
		"cleanup-ipvs":            {instead: "--cleanup"},
		"proxy-port-range":        {instead: "leave it out; it had no effect"},
		"udp-timeout":             {instead: "leave it out; it was for the userspace proxy"},
		"resource-container":      {instead: "leave it out"},
		"conntrack-max":           {instead: "--conntrack-max-per-core"},
		"root-hnsendpoint-name":   {before: "leave it out; the endpoint is cbr0"},
		"forward-healthcheck-vip": {before: "leave it out"},
	}),
}

func withKlog(m map[string]advice) map[string]advice {
	for _, name := range []string{"add-dir-header", "alsologtostderr", "log-backtrace-at", "log-dir", "log-file",
		"log-file-max-size",
		"logtostderr", "one-output", "skip-headers", "skip-log-headers", "stderrthreshold"} {
		m[name] = advice{instead: logRunner, source: klogFlags}
	}
	return m
}
