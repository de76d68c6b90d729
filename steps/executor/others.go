package executor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Other is something of the cluster's own CNI on a machine, which a leave does not touch.
type Other struct {
	Thing string `json:"thing"` // "HNS network Calico"
	Owner string `json:"owner"` // "Calico"
}

// cni is a CNI with what it leaves on a machine: the names of its services and HNS networks, and its folders.
type cni struct {
	name                        string
	services, networks, folders []string
}

// cnis are those that clusters with Windows nodes or Linux nodes run. Sources: projectcalico/calico,
// uninstall-calico.ps1 (services), the source VIP script of its kube-proxy (network), cni-plugin
// (/var/lib/calico/nodename); antrea-io/antrea, hack/windows/Clean-AntreaNetwork.ps1 and Helper.psm1 (nssm install
// antrea-agent), its DaemonSet (host-var-run-antrea); openshift/windows-machine-config-operator,
// pkg/windows/windows.go (hybrid overlay); cilium/cilium, its DaemonSet (cilium-run).
var cnis = []cni{
	{"Calico", []string{"CalicoNode", "CalicoFelix", "CalicoConfd", "CalicoUpgrade"}, []string{"Calico"},
		[]string{`C:\CalicoWindows`, "/var/lib/calico"}},
	{"Antrea", []string{"antrea-agent", "ovs-vswitchd", "ovsdb-server"}, []string{"antrea-hnsnetwork"},
		[]string{`C:\openvswitch`, `C:\k\antrea`, "/var/run/antrea"}},
	{"OVN-Kubernetes", []string{"hybrid-overlay-node"},
		[]string{"OVNKubernetesHybridOverlayNetwork", "BaseOVNKubernetesHybridOverlayNetwork"}, nil},
	{"Cilium", nil, nil, []string{"/var/run/cilium"}},
}

// otherOwner is the owner of what no CNI of the list has.
const otherOwner = "a program other than nodejoin"

// others lists what the cluster's CNI has on the machine, where nodejoin runs no pod network there.
func (x *Executor) others(ctx context.Context) ([]Other, error) {
	_, joined := x.record.Claims[record.Service.Of("kubelet")]
	if _, flannel := x.record.Claims[record.Service.Of("flanneld")]; !joined || flannel {
		return nil, nil
	}
	var out []Other
	for _, look := range []func(context.Context) ([]Other, error){x.otherNetworks, x.otherServices, x.otherConfigs,
		x.otherFolders} {
		list, err := look(ctx)
		if err != nil {
			return out, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// otherNetworks are HNS networks that hold an adapter.
func (x *Executor) otherNetworks(ctx context.Context) (out []Other, err error) {
	list, err := x.host.HNSNetworks(ctx)
	if errors.Is(err, host.ErrUnsupported) {
		return nil, nil
	}
	for _, n := range list {
		if _, ours := x.record.Lookup(record.HNSNetwork.Of(n.Name)); ours || strings.EqualFold(n.Type, "NAT") {
			continue
		}
		owner := otherOwner
		for _, c := range cnis {
			if slices.ContainsFunc(c.networks, func(name string) bool { return strings.EqualFold(name, n.Name) }) {
				owner = c.name
			}
		}
		out = append(out, Other{"HNS network " + n.Name, owner})
	}
	return out, err
}

// otherServices are services of the CNI, also those that the machine lets nobody open.
func (x *Executor) otherServices(ctx context.Context) (out []Other, err error) {
	for _, c := range cnis {
		for _, name := range c.services {
			switch _, err := x.host.Service(ctx, name); {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil && !errors.Is(err, fs.ErrPermission):
				return out, err
			default:
				out = append(out, Other{"service " + name, c.name})
			}
		}
	}
	return out, nil
}

// otherConfigs are the CNI configurations that nodejoin did not write. Each names its network and plugin.
func (x *Executor) otherConfigs(ctx context.Context) (out []Other, err error) {
	dir := "/etc/cni/net.d"
	if x.facts.OS == "windows" {
		dir = `C:\etc\cni\net.d`
	}
	list, err := x.host.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range list {
		file := host.Join(x.facts.OS, dir, f.Name)
		_, ours := x.record.Lookup(record.File.Of(file))
		if ours || !slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(f.Name)) {
			continue
		}
		text, err := host.ReadFile(ctx, x.host, file, host.MaxText)
		if err != nil {
			return out, err
		}
		if text != nil {
			out = append(out, Other{"CNI configuration " + file, configOwner(text.Content)})
		}
	}
	return out, err
}

// configOwner is who a CNI configuration is of, as far as it says that.
func configOwner(text []byte) string {
	var c struct {
		Name, Type string
		Plugins    []struct{ Type string }
	}
	if json.Unmarshal(text, &c) != nil || c.Name == "" {
		return otherOwner
	}
	if len(c.Plugins) > 0 {
		c.Type = c.Plugins[0].Type
	}
	return "the CNI network " + c.Name + ", plugin " + c.Type
}

func (x *Executor) otherFolders(ctx context.Context) (out []Other, err error) {
	for _, c := range cnis {
		for _, dir := range c.folders {
			if strings.HasPrefix(dir, "/") == (x.facts.OS == "windows") {
				continue
			}
			there, err := host.Exists(ctx, x.host, dir)
			if err != nil {
				return out, err
			}
			if _, ours := x.record.Lookup(record.Directory.Of(dir)); there && !ours {
				out = append(out, Other{"folder " + dir, c.name})
			}
		}
	}
	return out, nil
}
