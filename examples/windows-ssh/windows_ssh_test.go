// Package windows_ssh_test compiles the plan for real hosts with its example variables, as lock does.
package windows_ssh_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/plan"
	"nodejoin/steps"
)

func TestCompiles(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("windows-ssh.join.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "windows-ssh.join.hcl"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubernetes-node-windows-amd64.tar.gz", "containerd-2.4.2-windows-amd64.tar.gz",
		"cni-plugins-windows-amd64-v1.9.1.tgz", "flannel-amd64.exe", "flanneld.exe"} {
		path := filepath.Join(dir, "mirror", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", VarFiles: []string{"example.joinvars"},
		Vars: map[string]string{"kubeconfig": kubeconfig}, Locking: true,
		Agent: func(_, _, connection string) (steps.Source, error) {
			return steps.Source{File: filepath.Join(dir, "agent-for-"+connection), SHA256: strings.Repeat("0", 64)}, nil
		}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c, diags := p.Compile()
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	if len(c.Nodes) != 1 || c.Nodes[0].Connection.SSH == nil {
		t.Fatalf("nodes %+v", c.Nodes)
	}
	s := c.Nodes[0].Connection.SSH
	if s.Host != "10.0.0.21" || s.User != "Administrator" || len(s.Identity) > 0 || len(s.KnownHosts) > 0 {
		t.Errorf("ssh %+v", s)
	}
}
