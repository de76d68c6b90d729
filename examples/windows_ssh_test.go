package examples_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nodejoin/plan"
)

// ownValues does in a copy of windows-ssh what its head tells the reader to do: it puts the
// reader's values into example.joinvars, here a kubeconfig and a mirror of stand-ins. It
// gives their digests as values, which a script of cmd/nodejoin takes from a lock.
func ownValues(_ context.Context, dir string) error {
	mirror := filepath.Join(dir, "mirror")
	if err := os.Mkdir(mirror, 0o755); err != nil {
		return err
	}
	standIns := map[string]string{
		"kubernetes-node-windows-amd64.tar.gz": "kubernetes_node", "containerd-2.2.1-windows-amd64.tar.gz": "containerd",
		"cni-plugins-windows-amd64-v1.9.1.tgz": "cni_plugins", "flannel-amd64.exe": "flannel_cni",
		"flanneld.exe": "flanneld",
	}
	sums := "sha256 = {\n"
	for _, name := range slices.Sorted(maps.Keys(standIns)) {
		text, err := os.ReadFile(filepath.Join("quickstart", "mirror", name))
		if err != nil {
			return err
		}
		as := strings.Replace(name, "containerd-2.2.1", "containerd-2.4.2", 1) // a stand-in has no version
		if err := os.WriteFile(filepath.Join(mirror, as), text, 0o644); err != nil {
			return err
		}
		sums += fmt.Sprintf("  %s = \"%x\"\n", standIns[name], sha256.Sum256(text))
	}
	sums += "}\n"
	values, err := os.ReadFile("windows-ssh/example.joinvars")
	if err != nil {
		return err
	}
	values = append(values, sums...)
	values = regexp.MustCompile(`\nkubeconfig *=.*\n`).ReplaceAll(values, []byte("\nkubeconfig = \"kubeconfig\"\n"))
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "my.auto.joinvars"), values, 0o600),
		os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte("apiVersion: v1\nkind: Config\n"), 0o600))
}

// sandboxed replaces a plan's hosts over SSH and its real cluster with sandboxes. The steps
// stay the steps for the real hosts.
func sandboxed(c *plan.Compiled, dir string) {
	c.Cluster.Sandbox = filepath.Join(dir, ".sandbox", "cluster")
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Connection = plan.Connection{Type: "sandbox", Sandbox: &plan.Sandbox{
			Path: filepath.Join(dir, ".sandbox", n.Name), IP: n.Connection.SSH.Host, ClusterDir: c.Cluster.Sandbox}}
	}
}
