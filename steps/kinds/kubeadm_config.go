package kinds

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// joinConfiguration is kubeadm's configuration (kubeadm.k8s.io/v1beta3 and v1beta4, which have these fields
// alike). Discovery is by a file that names the API server and its CA: the token then need not be one that
// signs the cluster's cluster-info. Taints are given as none: the kubelet's configuration holds those of the
// plan.
type joinConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	CACertPath string `json:"caCertPath"`
	Discovery  struct {
		File struct {
			KubeConfigPath string `json:"kubeConfigPath"`
		} `json:"file"`
		TLSBootstrapToken string `json:"tlsBootstrapToken"`
	} `json:"discovery"`
	NodeRegistration struct {
		Name                  string     `json:"name"`
		CRISocket             string     `json:"criSocket"`
		Taints                []struct{} `json:"taints"`
		IgnorePreflightErrors []string   `json:"ignorePreflightErrors,omitempty"`
	} `json:"nodeRegistration"`
}

func (k *KubeadmJoin) rendered(to steps.RenderFor) (steps.Rendering, error) {
	shown := *k
	shown.Token = steps.ShowRefs(k.Token)
	path, text, err := shown.configFile(to.OS, to.Node)
	return steps.Rendering{Path: path, Content: string(text)}, err
}

// configFile is the JoinConfiguration for a node on an operating system, and where it
// lies while kubeadm runs.
func (k *KubeadmJoin) configFile(os, node string) (path string, text []byte, err error) {
	f := k.files(os)
	c := joinConfiguration{APIVersion: "kubeadm.k8s.io/" + k.ConfigVersion, Kind: "JoinConfiguration", CACertPath: f.ca}
	// Of a path with a drive kubeadm says that it is no https URL
	// (cmd/kubeadm/app/apis/kubeadm/validation): it runs in the folder of its program,
	// so that a path without one is on that drive.
	discovery := f.discovery
	if os == "windows" {
		_, discovery, _ = strings.Cut(discovery, ":")
	}
	c.Discovery.File.KubeConfigPath, c.Discovery.TLSBootstrapToken = discovery, k.Token
	n := &c.NodeRegistration
	n.Name, n.CRISocket, n.Taints, n.IgnorePreflightErrors = node, k.CRISocket, []struct{}{}, k.Ignore
	text, err = yaml.Marshal(c)
	return f.join, text, err
}

// write writes what kubeadm reads.
func (k *KubeadmJoin) write(ctx context.Context, h host.Host, e *steps.Env, f kubeadmFiles) error {
	_, config, err := k.configFile(e.Facts.OS, e.Node)
	if err != nil {
		return err
	}
	// A context must have a user, even one without credentials (client-go clientcmd.Validate).
	const nobody = "none"
	d := kubeFile{APIVersion: "v1", Kind: "Config", CurrentContext: clusterName, Users: []kubeUser{{Name: nobody}}}
	cluster := kubeCluster{Name: clusterName}
	cluster.Cluster.Server, cluster.Cluster.CA = k.Server, []byte(k.CA)
	at := kubeContext{Name: clusterName}
	at.Context.Cluster, at.Context.User = clusterName, nobody
	d.Clusters, d.Contexts = []kubeCluster{cluster}, []kubeContext{at}
	discovery, err := yaml.Marshal(d)
	if err != nil {
		return err
	}
	if err := h.WriteFile(ctx, f.discovery, bytes.NewReader(discovery),
		host.WriteOptions{Access: host.AccessPrivate}); err != nil {
		return err
	}
	return h.WriteFile(ctx, f.join, bytes.NewReader(config), host.WriteOptions{Access: host.AccessPrivate})
}

// preflightError is a line of kubeadm about a check that failed (kubernetes
// cmd/kubeadm/app/preflight/checks.go, RunChecks). It is read for people only.
var preflightError = regexp.MustCompile(`(?m)^\s*\[ERROR ([^\]]+)\]: (.*?)\r?$`)

// failed is the error of a join that ended with a code other than 0.
func (k *KubeadmJoin) failed(ctx context.Context, r host.Reader, code int) error {
	checks, err := k.preflight(ctx, r)
	if err == nil && len(checks) > 0 {
		return &steps.Error{Code: steps.CodeFailed, Summary: "kubeadm's preflight checks failed",
			Detail: strings.Join(checks, "\n"),
			Remedy: "fix what they name; a check that does not matter here can be named in ignore_preflight_errors. All " +
				"that kubeadm said is in " + k.Log}
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "kubeadm could not join the machine",
		Detail: fmt.Sprintf("kubeadm join ended with exit code %d%s", code, logTail(ctx, r, k.Log)),
		Remedy: "fix what it names and apply again. A Node left over from this machine counts as Ready for about 40 " +
			"seconds after its kubelet has ended"}
}

// preflight returns the failed checks that the log names, each as "Name: message".
func (k *KubeadmJoin) preflight(ctx context.Context, r host.FilesReader) (checks []string, err error) {
	rc, err := r.Open(ctx, k.Log)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, host.MaxText))
	for _, m := range preflightError.FindAllSubmatch(b, -1) {
		checks = append(checks, fmt.Sprintf("%s: %s", m[1], m[2]))
	}
	return checks, err
}
