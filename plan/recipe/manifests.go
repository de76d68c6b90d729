package recipe

import (
	"nodejoin/plan/compat"
	"nodejoin/templates"
)

// Wanted are the manifests that the plan asks for.
type Wanted struct {
	Flannel, KubeProxy, Bootstrap bool
	FlannelImage, FlannelCNIImage string // "" = the upstream image
	Classes                       []templates.RuntimeClass
	Force, Keep                   bool
	Source                        string
}

// Upstream's images (flannel Documentation/kube-flannel.yml). The plugin's version is that of v0.28.0; any
// plugin works with any flannel.
const (
	flannelImage    = "ghcr.io/flannel-io/flannel:v"
	flannelCNIImage = "ghcr.io/flannel-io/flannel-cni-plugin:v1.8.0-flannel1"
)

// bootstrapGroup is the group of the tokens that nodejoin and kubeadm mint.
const bootstrapGroup = "system:bootstrappers:kubeadm:default-node-token"

// Manifests renders the wanted manifests for an API server of the given version.
func Manifests(in Input, w Wanted, server string) ([]Manifest, error) {
	var out []Manifest
	var failed error
	add := func(m Manifest, r interface{ Render() (string, error) }) {
		text, err := r.Render()
		if err != nil && failed == nil {
			failed = err
		}
		m.Content, m.Force, m.Keep, m.Source = text, w.Force, w.Keep, w.Source
		out = append(out, m)
	}
	if w.Bootstrap {
		add(Manifest{Name: "bootstrap", Title: "Nodes with a bootstrap token get their certificates"},
			templates.Bootstrap{Group: bootstrapGroup})
	}
	if w.KubeProxy {
		add(Manifest{Name: "kube_proxy", Title: "The cluster's DaemonSet kube-proxy keeps to Linux nodes", Existing: true},
			templates.KubeProxySelector{})
	}
	if w.Flannel {
		conf, err := netConfOf(in).Render()
		if err != nil {
			return nil, err
		}
		add(Manifest{Name: "flannel", Title: "flannel " + in.Network.Version + " on the cluster's Linux nodes"},
			templates.Flannel{
				Image: or(w.FlannelImage, flannelImage+in.Network.Version), CNIImage: or(w.FlannelCNIImage, flannelCNIImage),
				NetConf: conf})
	}
	if len(w.Classes) > 0 {
		api, err := compat.RuntimeClassAPI(server)
		if err != nil {
			return nil, err
		}
		handler := compat.HandlerProcess
		if in.Runtime.Kind != "containerd" {
			handler = compat.HandlerDocker
		}
		add(Manifest{Name: "runtime_classes", Title: "RuntimeClasses of the Windows builds"},
			templates.RuntimeClasses{APIVersion: api, Handler: handler, Classes: w.Classes})
	}
	return out, failed
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// manifests adds the cluster's manifests, after the preflight of the machine. It returns the ids of the
// steps, which come before the start of the kubelet.
func (b *build) manifests() []string {
	var ids []string
	for _, m := range b.in.Manifests {
		s := b.add(m.ID(), "manifest", m.Title, m.Step(), "require")
		s.Source, s.Keep = m.Source, m.Keep
		ids = append(ids, m.ID())
	}
	return ids
}
