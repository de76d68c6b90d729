package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// kubeletConfig is the part of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that the sandbox uses.
type kubeletConfig struct {
	RegisterWithTaints []kube.Taint `json:"registerWithTaints"`
	ServerTLSBootstrap bool         `json:"serverTLSBootstrap"`
}

// launchKubelet joins the cluster, unless it has already joined, and registers the Node.
func (h *Host) launchKubelet(ctx context.Context, s *state, p program) error {
	var config kubeletConfig
	if path := p.flag("config"); path != "" {
		raw, err := h.read(path)
		if err != nil {
			return exit("failed to load kubelet config file: %v", err)
		}
		if err := yaml.Unmarshal(raw, &config); err != nil {
			return exit("failed to load kubelet config file %s: %v", path, err)
		}
	}
	if err := h.dropIns(p.flag("config-dir"), &config); err != nil {
		return err
	}
	if err := h.makeLogFolders(); err != nil {
		return err
	}
	node := h.nodeName(p)
	cert, err := h.clientCertificate(ctx, s, p, node)
	if err != nil || h.cfg.ClusterDir == "" {
		return err
	}
	cluster, err := OpenCluster(ctx, ClusterConfig{Dir: h.cfg.ClusterDir})
	if err != nil {
		return err
	}
	version, err := h.stampOf(p.path)
	if err != nil {
		return err
	}
	ip, _, _ := strings.Cut(p.flag("node-ip"), ",")
	want := kube.Node{Name: node, KubeletVersion: version, InternalIP: or(ip, h.cfg.IP),
		Taints: config.RegisterWithTaints,
		Labels: map[string]string{"kubernetes.io/os": h.cfg.OS, "kubernetes.io/arch": h.cfg.Arch,
			"kubernetes.io/hostname": node}}
	if h.windows() {
		want.Labels["node.kubernetes.io/windows-build"] = strings.Join(strings.SplitN(h.cfg.Build, ".",
			4)[:min(3, 1+strings.Count(h.cfg.Build, "."))], ".")
	}
	want.Taints = append(want.Taints, taintsOf(p.flag("register-with-taints"))...)
	for _, pair := range strings.Split(p.flag("node-labels"), ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			want.Labels[k] = v
		}
	}
	err = cluster.register(ctx, cert, want)
	if errors.Is(err, kube.ErrUnauthorized) || errors.Is(err, kube.ErrUnreachable) {
		return nil // a kubelet with a kubeconfig keeps running and tries again
	}
	if err == nil && config.ServerTLSBootstrap {
		err = h.requestServing(ctx, cluster, p, node, want.InternalIP)
	}
	return err
}

// makeLogFolders makes the folders of the pods' logs, as every start of a kubelet does (kubernetes
// pkg/kubelet/kubelet.go, setupDataDirs and initializeModules).
func (h *Host) makeLogFolders() error {
	for _, name := range []string{"pods", "containers"} {
		path := "/var/log/" + name
		if h.windows() {
			path = `C:\var\log\` + name
		}
		at, err := h.real(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// taintsOf parses the flag --register-with-taints, "key=value:effect,...".
func taintsOf(flag string) []kube.Taint {
	var out []kube.Taint
	for _, text := range strings.Split(flag, ",") {
		if pair, effect, ok := strings.Cut(text, ":"); ok {
			key, value, _ := strings.Cut(pair, "=")
			out = append(out, kube.Taint{Key: key, Value: value, Effect: effect})
		}
	}
	return out
}

// clientCertificate returns the certificate of the kubeconfig. If it is missing or has expired, a new one is
// requested with the bootstrap kubeconfig.
func (h *Host) clientCertificate(ctx context.Context, s *state, p program, node string) (string, error) {
	path := p.flag("kubeconfig")
	have, err := h.credential(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err == nil {
		cert, parseErr := parseCertificate(string(have.user.Cert))
		if parseErr == nil && time.Now().Before(cert.NotAfter) {
			return string(have.user.Cert), nil
		}
	}
	boot, bootErr := h.credential(p.flag("bootstrap-kubeconfig"))
	switch {
	case errors.Is(bootErr, fs.ErrNotExist) && err == nil:
		return string(have.user.Cert), nil // no usable bootstrap kubeconfig: there are no other credentials
	case errors.Is(bootErr, fs.ErrNotExist):
		return "", exit("unable to load bootstrap kubeconfig: %v", bootErr)
	case bootErr != nil:
		return "", bootErr
	case path == "":
		return "", exit("no --kubeconfig")
	}
	got, err := h.bootstrap(ctx, boot, node)
	if err != nil {
		return "", err
	}
	return got.cert, h.writeKubeconfig(ctx, s, path, boot, got)
}

func (h *Host) bootstrap(ctx context.Context, boot credential, node string) (joined, error) {
	if h.cfg.ClusterDir == "" {
		self, err := newAuthority()
		if err != nil {
			return joined{}, err
		}
		cert, key, err := self.nodeCertificate(node)
		return joined{cert, key}, err
	}
	cluster, err := OpenCluster(ctx, ClusterConfig{Dir: h.cfg.ClusterDir})
	if err != nil {
		return joined{}, err
	}
	info, err := cluster.Info(ctx)
	if err != nil {
		return joined{}, refusal(err)
	}
	if strings.TrimSpace(boot.ca) != strings.TrimSpace(info.CA) {
		return joined{}, exit("tls: failed to verify certificate: x509: certificate signed by unknown authority")
	}
	got, err := cluster.join(ctx, node, boot.user)
	return got, refusal(err)
}

func (h *Host) writeKubeconfig(ctx context.Context, s *state, path string, boot credential, got joined) error {
	k := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: "default-context",
		Clusters: make([]namedCluster, 1), Users: make([]namedUser, 1), Contexts: make([]namedContext, 1)}
	k.Clusters[0].Name = "default-cluster"
	k.Clusters[0].Cluster.Server, k.Clusters[0].Cluster.CA = boot.server, []byte(boot.ca)
	k.Users[0] = namedUser{"default-auth", user{Cert: []byte(got.cert), Key: []byte(got.key)}}
	k.Contexts[0].Name = "default-context"
	k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = "default-cluster", "default-auth"
	text, err := yaml.Marshal(k)
	if err != nil {
		return err
	}
	return h.write(ctx, s, path, string(text), host.AccessPrivate)
}

// dropIns overlays the files of --config-dir on the kubelet's configuration, in the order of their names
// (kubernetes.io, "Kubelet Configuration Directory Merging").
func (h *Host) dropIns(dir string, into *kubeletConfig) error {
	if dir == "" {
		return nil
	}
	at, err := h.real(dir)
	if err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(at, "*.conf"))
	if err != nil {
		return err
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err == nil {
			err = yaml.Unmarshal(raw, into)
		}
		if err != nil {
			return exit("failed to load kubelet config file %s: %v", filepath.Base(name), err)
		}
	}
	return nil
}
