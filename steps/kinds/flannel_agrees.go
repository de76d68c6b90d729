package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

var flannelAgreesKind = steps.Kind{Name: "flannel_agrees", Place: steps.OnCluster, Waits: true,
	Doc:    "a condition: the cluster's Linux nodes run the same flannel backend as this node will",
	New:    func() any { return &FlannelAgrees{} },
	Review: steps.Review((*FlannelAgrees).review)}

// FlannelAgrees compares the pod network of a node with that of the cluster before
// the node gets it: nodes with another backend, VNI or port exchange no packet of a
// pod, and nothing says so. It asks what flanneld announces on the Linux nodes, and
// the ConfigMap of flannel's manifest where there is one that may be read.
type FlannelAgrees struct {
	Backend string `json:"backend" doc:"\"vxlan\" or \"host-gw\"" choices:"vxlan,host-gw"`
	VNI     uint32 `json:"vni,omitempty" doc:"VXLAN network identifier"`
	Port    uint16 `json:"port,omitempty" doc:"VXLAN port"`
	Network string `json:"network" doc:"network of all pods, for example 10.244.0.0/16"`
}

// Annotations of flanneld's Kubernetes subnet manager (flannel
// pkg/subnet/kube/annotations.go, with its default prefix). backend-data of vxlan is
// {"VNI":4096,"VtepMAC":"..."}, of host-gw null.
const (
	flannelBackendType = "flannel.alpha.coreos.com/backend-type"
	flannelBackendData = "flannel.alpha.coreos.com/backend-data"
)

// flannelConfigMaps are where flannel's manifest keeps net-conf.json: since v0.20, and before.
var flannelConfigMaps = [][2]string{{"kube-flannel", "kube-flannel-cfg"}, {"kube-system", "kube-flannel-cfg"}}

// linuxVNI and linuxPort are what flanneld takes on Linux where net-conf.json is
// silent (flannel pkg/backend/vxlan/vxlan.go: defaultVNI; port 0 is the kernel's).
const (
	linuxVNI  = 1
	linuxPort = 8472
)

// mostNodes bounds the Nodes that are looked at. A cluster has one flannel.
const mostNodes = 50

func (f *FlannelAgrees) review(w steps.Written) (out []steps.Remark) {
	for _, name := range []string{"vni", "port"} {
		if f.Backend == "host-gw" && w.Has(name) {
			out = append(out, steps.Remark{Arg: name, Detail: fmt.Sprintf("The argument %q is of VXLAN, and the backend is "+
				"\"host-gw\", which has none. Remove it.", name)})
		}
	}
	return out
}

func (f *FlannelAgrees) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	nodes, err := r.LinuxNodes(ctx, mostNodes)
	if err != nil {
		return steps.Change{}, err
	}
	var seen []string
	more := 0
	for _, n := range nodes {
		why := f.announced(n)
		switch {
		case n.Name == e.Node || why == "":
		case len(seen) < 3:
			seen = append(seen, fmt.Sprintf("Node %s announces %s", n.Name, why))
		default:
			more++
		}
	}
	if more > 0 {
		seen = append(seen, fmt.Sprintf("and so do %d more", more))
	}
	why, err := f.configured(ctx, r)
	if err != nil {
		return steps.Change{}, err
	}
	if seen = append(seen, why...); len(seen) == 0 {
		return steps.Change{}, nil
	}
	return steps.Change{}, &steps.Error{Code: steps.CodeFailed, Summary: "the cluster's pod network is another",
		Detail: fmt.Sprintf("this node is to have flannel with %s, but %s. Pods of this node and of those could not "+
			"reach each other", f.words(), strings.Join(seen, "; ")),
		Remedy: f.remedy()}
}

// Apply is never reached: Check has nothing to do or fails.
func (f *FlannelAgrees) Apply(context.Context, kube.API, *steps.Env, steps.Change) (steps.Outcome, error) {
	return steps.Outcome{}, nil
}

func (f *FlannelAgrees) words() string {
	if f.Backend != vxlan {
		return fmt.Sprintf("the backend %q and the network %s", f.Backend, f.Network)
	}
	return fmt.Sprintf("the backend %q, VNI %d, port %d and the network %s", f.Backend, f.VNI, f.Port, f.Network)
}

const vxlan = "vxlan"

// announced says what of a Node's annotations differs; "" where nothing does, or
// where it has none.
func (f *FlannelAgrees) announced(n kube.Node) string {
	backend := n.Annotations[flannelBackendType]
	switch {
	case backend == "":
		return ""
	case backend != f.Backend:
		return fmt.Sprintf("the backend %q", backend)
	case f.outside(n.PodCIDR):
		return "pods in " + n.PodCIDR
	case f.Backend != vxlan:
		return ""
	}
	var data struct {
		VNI *uint32
	}
	if json.Unmarshal([]byte(n.Annotations[flannelBackendData]), &data) != nil || data.VNI == nil {
		return "" // a form that this version does not know says nothing
	}
	if *data.VNI != f.VNI {
		return fmt.Sprintf("the VNI %d", *data.VNI)
	}
	return ""
}

// outside reports whether a part of the pods' network is none of Network.
func (f *FlannelAgrees) outside(part string) bool {
	p, err1 := netip.ParsePrefix(part)
	all, err2 := netip.ParsePrefix(f.Network)
	return err1 == nil && err2 == nil && !all.Contains(p.Addr())
}

// configured says what of the manifest's net-conf.json differs.
func (f *FlannelAgrees) configured(ctx context.Context, r kube.Reader) ([]string, error) {
	for _, at := range flannelConfigMaps {
		data, err := r.ConfigMap(ctx, at[0], at[1])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, kube.ErrForbidden):
			continue // the Nodes are asked in any case
		case err != nil:
			return nil, err
		}
		var out []string
		for _, why := range f.netConf(data["net-conf.json"]) {
			out = append(out, fmt.Sprintf("ConfigMap %s/%s has %s", at[0], at[1], why))
		}
		return out, nil
	}
	return nil, nil
}

func (f *FlannelAgrees) netConf(text string) (why []string) {
	conf := struct {
		Network string
		Backend struct {
			Type          string
			VNI           uint32
			Port          uint16
			DirectRouting bool
		}
	}{}
	conf.Backend.VNI, conf.Backend.Port = linuxVNI, linuxPort
	if json.Unmarshal([]byte(text), &conf) != nil || conf.Backend.Type == "" {
		return nil // flanneld itself would not run with it
	}
	if conf.Backend.Port == 0 {
		conf.Backend.Port = linuxPort
	}
	have, err1 := netip.ParsePrefix(conf.Network)
	want, err2 := netip.ParsePrefix(f.Network)
	if err1 == nil && err2 == nil && have.Masked() != want.Masked() {
		why = append(why, "the network "+have.Masked().String())
	}
	switch b := conf.Backend; {
	case !strings.EqualFold(b.Type, f.Backend): // as flanneld takes it (pkg/backend/manager.go)
		why = append(why, fmt.Sprintf("the backend %q", b.Type))
	case f.Backend != vxlan:
	default:
		if b.VNI != f.VNI {
			why = append(why, fmt.Sprintf("the VNI %d", b.VNI))
		}
		if b.Port != f.Port {
			why = append(why, fmt.Sprintf("the port %d", b.Port))
		}
		if b.DirectRouting {
			// On one link, flanneld on Linux then sends packets unwrapped, and the overlay of Windows drops them.
			why = append(why, "DirectRouting, which flannel on Windows has not (set it to false there)")
		}
	}
	return why
}

func (f *FlannelAgrees) remedy() string {
	s := "give the plan's network block and pod_cidr what the cluster has"
	if f.Backend == vxlan {
		s += fmt.Sprintf("; Windows nodes need a VNI of 4096 or more and port 4789, so where the cluster has less, set "+
			"\"VNI\": %d and \"Port\": %d in its net-conf.json and restart flannel on all its nodes, which interrupts their "+
			"pods' network", f.VNI, f.Port)
	}
	return s
}
