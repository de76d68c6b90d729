package kinds

import (
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
		TLSBootstrapToken string `json:"tlsBootstrapToken,omitempty"`
	} `json:"discovery"`
	NodeRegistration struct {
		Name                  string     `json:"name"`
		CRISocket             string     `json:"criSocket"`
		Taints                []struct{} `json:"taints"`
		IgnorePreflightErrors []string   `json:"ignorePreflightErrors,omitempty"`
	} `json:"nodeRegistration"`
}

// discoveryFile is a kubeconfig that says where the API server is and which CA it has. by may be empty; with a
// certificate kubeadm joins by that (kubernetes cmd/kubeadm/app/discovery).
func discoveryFile(server, ca string, by kubeSecret) ([]byte, error) {
	// A context must have a user, even one without credentials (client-go clientcmd.Validate).
	const nobody = "none"
	d := kubeFile{APIVersion: "v1", Kind: "Config", CurrentContext: clusterName,
		Users: []kubeUser{{Name: nobody, User: by}}}
	cluster := kubeCluster{Name: clusterName}
	cluster.Cluster.Server, cluster.Cluster.CA = server, []byte(ca)
	at := kubeContext{Name: clusterName}
	at.Context.Cluster, at.Context.User = clusterName, nobody
	d.Clusters, d.Contexts = []kubeCluster{cluster}, []kubeContext{at}
	return yaml.Marshal(d)
}

// preflightError is a line of kubeadm about a check that failed (kubernetes
// cmd/kubeadm/app/preflight/checks.go, RunChecks). It is read for people only.
var preflightError = regexp.MustCompile(`(?m)^\s*\[ERROR ([^\]]+)\]: (.*?)\r?$`)

// kubeadmFailed is the error of a command of kubeadm, "join" or "upgrade", that ended with a code other than 0; log is
// what it printed.
func kubeadmFailed(ctx context.Context, r host.Reader, command, log string, code int) error {
	checks, err := failedChecks(ctx, r, log)
	if err == nil && len(checks) > 0 {
		return &steps.Error{Code: steps.CodeFailed, Summary: "kubeadm's preflight checks failed",
			Detail: strings.Join(checks, "\n"),
			Remedy: "fix what they name; a check that does not matter here can be named in ignore_preflight_errors. All " +
				"that kubeadm said is in " + log}
	}
	detail := fmt.Sprintf("kubeadm %s ended with exit code %d%s", command, code, logTail(ctx, r, log))
	if command != "join" {
		return &steps.Error{Code: steps.CodeFailed, Summary: "kubeadm could not upgrade the kubelet's settings",
			Detail: detail, Remedy: "fix what it names and apply again"}
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "kubeadm could not join the machine", Detail: detail,
		Remedy: "fix what it names and apply again. A Node left over from this machine counts as Ready for about 40 " +
			"seconds after its kubelet has ended"}
}

// failedChecks are those that the log names, each as "Name: message".
func failedChecks(ctx context.Context, r host.FilesReader, log string) (checks []string, err error) {
	rc, err := r.Open(ctx, log)
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
