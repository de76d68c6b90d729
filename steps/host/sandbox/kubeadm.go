package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"nodejoin/steps/host"
)

// joinConfig is the part of kubeadm's JoinConfiguration that the sandbox uses.
type joinConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Discovery  struct {
		File struct {
			KubeConfigPath string `json:"kubeConfigPath"`
		} `json:"file"`
		TLSBootstrapToken string `json:"tlsBootstrapToken"`
	} `json:"discovery"`
	NodeRegistration struct {
		Name                  string   `json:"name"`
		CRISocket             string   `json:"criSocket"`
		IgnorePreflightErrors []string `json:"ignorePreflightErrors"`
	} `json:"nodeRegistration"`
}

// kubeadmJoin simulates `kubeadm join --config FILE` on a worker, in the order of the real command (kubernetes
// cmd/kubeadm/app/cmd/join.go and phases/join). It returns what kubeadm prints.
func (h *Host) kubeadmJoin(ctx context.Context, s *state, p program) (printed string, err error) {
	if len(p.args) > 1 && p.args[0] == "upgrade" && p.args[1] == "node" {
		return h.kubeadmUpgrade(ctx, s, p)
	}
	if len(p.args) == 0 || p.args[0] != "join" {
		return "", exit("the sandbox plays kubeadm join and kubeadm upgrade node only, not kubeadm %s",
			strings.Join(p.args, " "))
	}
	raw, err := h.read(p.flag("config"))
	if err != nil {
		return "", exit("unable to read config from %q: %v", p.flag("config"), err)
	}
	var c joinConfig
	if err := yaml.Unmarshal(raw, &c); err != nil || c.Kind != "JoinConfiguration" ||
		c.APIVersion != "kubeadm.k8s.io/v1beta3" && c.APIVersion != "kubeadm.k8s.io/v1beta4" {
		return "", exit("no JoinConfiguration of kubeadm.k8s.io/v1beta3 or v1beta4 in %s: %v", p.flag("config"), err)
	}
	etc, lib := h.kubeadmFolders()
	file := func(elem ...string) string { return host.Join(h.cfg.OS, elem...) }
	conf, boot, ca := file(etc, "kubelet.conf"), file(etc, "bootstrap-kubelet.conf"), file(etc, "pki", "ca.crt")
	if errs := h.preflight(s, c, conf, boot, ca); len(errs) > 0 {
		return "", exit("[preflight] Some fatal errors occurred:\n\t[ERROR %s", strings.Join(errs, "\n\t[ERROR "))
	}
	if drive, _, ok := strings.Cut(c.Discovery.File.KubeConfigPath, ":"); ok && drive != "https" {
		return "", exit("discovery.file.kubeConfigPath: Invalid value: %q: if a URL is used, the scheme must be https",
			c.Discovery.File.KubeConfigPath)
	}
	found, err := h.credential(h.onDrive(c.Discovery.File.KubeConfigPath))
	if errors.Is(err, fs.ErrNotExist) {
		return "", exit("discovery.file.kubeConfigPath: Invalid value: %q: not a valid HTTPS URL or a file on disk",
			c.Discovery.File.KubeConfigPath)
	}
	if err != nil {
		return "", err
	}
	if c.Discovery.TLSBootstrapToken != "" {
		found.user = user{Token: c.Discovery.TLSBootstrapToken}
	}
	if found.user.Token == "" && (len(found.user.Cert) == 0 || len(found.user.Key) == 0) {
		return "", exit("couldn't find authentication credentials for the TLS bootstrap process")
	}
	if err := h.joinable(ctx, c, found); err != nil {
		return "", err
	}
	dns, err := h.clusterDNS(ctx)
	if err != nil {
		return "", err
	}
	for _, f := range []struct{ path, text string }{
		{boot, bootstrapText(found)}, {ca, found.ca},
		{file(lib, "config.yaml"), kubeletSettings(dns)},
		{file(lib, "kubeadm-flags.env"),
			fmt.Sprintf("KUBELET_KUBEADM_ARGS=%q\n", "--container-runtime-endpoint="+c.NodeRegistration.CRISocket)},
	} {
		if err := h.write(ctx, s, f.path, f.text, host.AccessPrivate); err != nil {
			return "", err
		}
	}
	if err := h.restartKubelet(ctx, s); err != nil {
		return "", err
	}
	if !h.isFile(conf) {
		return "", exit("failed while waiting for TLS bootstrap: %s does not exist", conf)
	}
	at, err := h.real(boot)
	if err != nil {
		return "", err
	}
	key, err := h.key(boot)
	if err != nil {
		return "", err
	}
	delete(s.Access, key)
	return "This node has joined the cluster\n", os.Remove(at)
}

func (h *Host) kubeadmFolders() (etc, lib string) {
	if h.windows() {
		return `C:\etc\kubernetes`, `C:\var\lib\kubelet`
	}
	return "/etc/kubernetes", "/var/lib/kubelet"
}

// kubeletSettings is what kubeadm writes of the cluster's kubelet-config.
func kubeletSettings(dns string) string {
	return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nrotateCertificates: true\n" +
		"clusterDNS: [" + dns + "]\n"
}

// kubeadmUpgrade simulates `kubeadm upgrade node` on a worker: a copy of the kubelet's settings in kubeadm's folder
// tmp, then those of the cluster (kubernetes cmd/kubeadm/app/phases/upgrade/postupgrade.go).
func (h *Host) kubeadmUpgrade(ctx context.Context, s *state, p program) (printed string, err error) {
	etc, lib := h.kubeadmFolders()
	if _, err := h.credential(p.flag("kubeconfig")); err != nil {
		return "", exit("couldn't create a Kubernetes client from file %q: %v", p.flag("kubeconfig"), err)
	}
	config := host.Join(h.cfg.OS, lib, "config.yaml")
	have, err := h.read(config)
	if err != nil {
		return "", exit("error backing up the kubelet config file: %v", err)
	}
	dns, err := h.clusterDNS(ctx)
	if err != nil {
		return "", err
	}
	backup := host.Join(h.cfg.OS, etc, "tmp", "kubeadm-kubelet-config-"+time.Now().Format("2006-01-02-15-04-05"),
		"config.yaml")
	if err := h.write(ctx, s, backup, string(have), host.AccessPrivate); err != nil {
		return "", err
	}
	if err := h.write(ctx, s, config, kubeletSettings(dns), host.AccessPrivate); err != nil {
		return "", err
	}
	return "[upgrade/kubelet-config] The kubelet configuration for this node was successfully upgraded!\n", nil
}

// clusterDNS returns the address of the cluster's DNS, which kubeadm copies from the ConfigMap kubelet-config
// into the kubelet's configuration.
func (h *Host) clusterDNS(ctx context.Context) (string, error) {
	ip := dnsServices("")[1].ClusterIP
	if h.cfg.ClusterDir == "" {
		return ip, nil
	}
	cluster, err := OpenCluster(ctx, ClusterConfig{Dir: h.cfg.ClusterDir})
	if err != nil {
		return "", err
	}
	list, err := cluster.Services(ctx)
	for _, s := range list {
		if s.String() == "kube-system/kube-dns" {
			ip = s.ClusterIP
		}
	}
	return ip, refusal(err)
}

// preflight returns the failed checks, each as "Name]: message".
func (h *Host) preflight(s *state, c joinConfig, files ...string) (failed []string) {
	ignored := c.NodeRegistration.IgnorePreflightErrors
	add := func(name, message string) {
		if !slices.ContainsFunc(ignored, func(i string) bool { return strings.EqualFold(i, name) || i == "all" }) {
			failed = append(failed, name+"]: "+message)
		}
	}
	if svc := s.Services[containerd]; svc == nil || svc.State != host.ServiceRunning {
		add("CRI", "could not connect to the container runtime: "+c.NodeRegistration.CRISocket)
	}
	for _, path := range files {
		there := h.isFile(path)
		if _, plain, ok := strings.Cut(path, ":"); ok {
			path = plain // as kubeadm names it
		}
		if there {
			add("FileAvailable-"+strings.ReplaceAll(path, "/", "-"), path+" already exists")
		}
	}
	return failed
}

// joinable asks the cluster the questions that kubeadm asks.
func (h *Host) joinable(ctx context.Context, c joinConfig, found credential) error {
	if h.cfg.ClusterDir == "" {
		return nil
	}
	cluster, err := OpenCluster(ctx, ClusterConfig{Dir: h.cfg.ClusterDir})
	if err != nil {
		return err
	}
	info, err := cluster.Info(ctx)
	if err != nil {
		return refusal(err)
	}
	if strings.TrimSpace(found.ca) != strings.TrimSpace(info.CA) {
		return exit("couldn't validate the identity of the API Server: tls: failed to verify certificate: x509: " +
			"certificate signed by unknown authority")
	}
	if err := cluster.accepts(ctx, found.user); err != nil {
		return refusal(err)
	}
	node, err := cluster.Node(ctx, c.NodeRegistration.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && node.Ready {
		return exit("a Node with name %q and status \"Ready\" already exists in the cluster. You must delete the existing "+
			"Node or change the name of this new joining Node", node.Name)
	}
	return refusal(err)
}

func bootstrapText(c credential) string {
	k := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: "tls-bootstrap-token-user@kubernetes",
		Clusters: make([]namedCluster, 1), Contexts: make([]namedContext, 1),
		Users: []namedUser{{"tls-bootstrap-token-user", c.user}}}
	k.Clusters[0].Name = "kubernetes"
	k.Clusters[0].Cluster.Server, k.Clusters[0].Cluster.CA = c.server, []byte(c.ca)
	k.Contexts[0].Name = k.CurrentContext
	k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = "kubernetes", "tls-bootstrap-token-user"
	text, err := yaml.Marshal(k)
	if err != nil {
		panic(err) // structs of strings
	}
	return string(text)
}

// restartKubelet restarts the service as kubeadm does. If there is none, kubeadm only says so.
func (h *Host) restartKubelet(ctx context.Context, s *state) error {
	svc := s.Services[kubelet]
	if svc == nil {
		return exit("[kubelet-start] Couldn't detect a kubelet service")
	}
	if svc.State != host.ServiceStopped {
		if err := h.stop(ctx, svc); err != nil {
			return err
		}
	}
	if err := h.start(ctx, s, svc, nil); err != nil {
		return exit("unable to start the kubelet service: %v", err)
	}
	if svc.State != host.ServiceRunning {
		return exit("failed while waiting for the kubelet to start: it ended with exit code %d", svc.ExitCode)
	}
	return nil
}
