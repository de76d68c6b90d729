package acceptance_test

import (
	"os"
	"path/filepath"
	"testing"
	"text/template"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/mirror"
)

var planText = template.Must(template.New("plan").Parse(`
cluster "acceptance" {
  kubernetes   = "{{.Kubernetes}}"
  api_server   = "{{.Cluster.URL}}"
  kubeconfig   = "{{.Cluster.Kubeconfig}}"
  ca_hash      = "{{.Cluster.CAHash}}"
  pod_cidr     = "{{.PodCIDR}}"
  service_cidr = "{{.ServiceCIDR}}"
  dns_ip       = "{{.DNSIP}}"
  join "bootstrap_token" { ttl = "10m" }
}

runtime "containerd" { version = "{{.Containerd}}" }

network "flannel" {
  version = "{{.Flannel}}"
  backend = "vxlan"
}

mirror { path = "{{.Mirror}}" }
{{range .Artifacts}}
artifact "{{.Name}}" {
  {{- if eq .Name "cni_plugins"}}
  version = "{{$.CNIPlugins}}"{{end}}
  sha256 = "{{.SHA256}}"
}
{{end}}
profile "windows" {
  os     = "windows"
  labels = { "example.com/pool" = "windows" }
  taint {
    key    = "os"
    value  = "windows"
    effect = "NoSchedule"
  }
}

node "{{.Node}}" {
  profile = profile.windows
  {{.Connection}}
}

step "file" "motd" {
  on      = node.{{.Node}}
  path    = "C:\\k\\README.txt"
  content = "joined by nodejoin\n"
  after   = ["kubelet"]
}
`))

// writePlan writes a plan of one Windows node into a new folder and gives the folder.
func writePlan(t *testing.T, cluster *controlplane.Cluster, connection, mirrorDir string, artifacts map[string]mirror.Artifact) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "plan.join.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := planText.Execute(f, map[string]any{
		"Cluster": cluster, "Connection": connection, "Mirror": mirrorDir, "Artifacts": artifacts, "Node": nodeName,
		"Kubernetes": components.Kubernetes, "Containerd": components.Containerd, "Flannel": components.Flannel, "CNIPlugins": components.CNIPlugins,
		"PodCIDR": controlplane.PodCIDR, "ServiceCIDR": controlplane.ServiceCIDR, "DNSIP": controlplane.DNSIP,
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}
