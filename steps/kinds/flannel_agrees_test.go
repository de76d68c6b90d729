package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// flannelCluster has Linux nodes and one ConfigMap.
type flannelCluster struct {
	kube.Reader
	nodes   []kube.Node
	at      string // "namespace/name"
	netConf string
	err     error // of the ConfigMap
	nodeErr error
}

func (f flannelCluster) LinuxNodes(context.Context, int) ([]kube.Node, error) {
	return f.nodes, f.nodeErr
}

func (f flannelCluster) ConfigMap(_ context.Context, namespace, name string) (map[string]string, error) {
	switch {
	case f.err != nil:
		return nil, f.err
	case f.at != namespace+"/"+name:
		return nil, fmt.Errorf("reading: %w", fs.ErrNotExist)
	}
	return map[string]string{"net-conf.json": f.netConf, "cni-conf.json": "{}"}, nil
}

func linux(name, backend, data string) kube.Node {
	return kube.Node{Name: name, Annotations: map[string]string{flannelBackendType: backend, flannelBackendData: data}}
}

func TestFlannelAgrees(t *testing.T) {
	overlay := FlannelAgrees{Backend: "vxlan", VNI: 4096, Port: 4789, Network: "10.244.0.0/16"}
	bridge := FlannelAgrees{Backend: "host-gw", Network: "10.244.0.0/16"}
	right := linux("a", "vxlan", `{"VNI":4096,"VtepMAC":"02:00:00:00:00:01"}`)
	wrong := func(name string) kube.Node { return linux(name, "vxlan", `{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}`) }
	const manifest = `{"Network":"10.244.0.0/16","EnableNFTables":false,"Backend":{"Type":"vxlan"%s}}`
	conf := func(at, backend string) flannelCluster {
		return flannelCluster{at: at, netConf: fmt.Sprintf(manifest, backend)}
	}
	for name, c := range map[string]struct {
		step    FlannelAgrees
		cluster flannelCluster
		want    []string // in the detail; none if it agrees
	}{
		"no nodes": {overlay, flannelCluster{}, nil},
		"the same": {overlay, flannelCluster{nodes: []kube.Node{right, {Name: "no flannel"}}}, nil},
		"itself":   {overlay, flannelCluster{nodes: []kube.Node{wrong("win-1")}}, nil},
		"unknown data": {overlay,
			flannelCluster{nodes: []kube.Node{linux("a", "vxlan", "null"), linux("b", "vxlan", "{")}}, nil},
		"VNI": {overlay, flannelCluster{nodes: []kube.Node{right, wrong("b")}},
			[]string{"Node b announces the VNI 1"}},
		"many": {overlay,
			flannelCluster{nodes: []kube.Node{wrong("a"), wrong("b"), wrong("c"), wrong("d"), wrong("e")}},
			[]string{"Node c", "so do 2 more"}},
		"backend": {overlay, flannelCluster{nodes: []kube.Node{linux("a", "host-gw", "null")}},
			[]string{`Node a announces the backend "host-gw"`}},
		"backend of host-gw": {bridge, flannelCluster{nodes: []kube.Node{right}}, []string{`the backend "vxlan"`}},
		"host-gw":            {bridge, flannelCluster{nodes: []kube.Node{linux("a", "host-gw", "null")}}, nil},
		"manifest":           {overlay, conf("kube-flannel/kube-flannel-cfg", `,"VNI":4096,"Port":4789`), nil},
		"manifest in capitals": {overlay, flannelCluster{at: "kube-flannel/kube-flannel-cfg",
			netConf: `{"Network":"10.244.0.0/16","Backend":{"Type":"VXLAN","VNI":4096,"Port":4789}}`}, nil},
		"direct routing": {overlay,
			conf("kube-flannel/kube-flannel-cfg", `,"VNI":4096,"Port":4789,"DirectRouting":true`),
			[]string{"has DirectRouting"}},
		"pods of the network": {overlay,
			flannelCluster{nodes: []kube.Node{{Name: "a", PodCIDR: "10.244.3.0/24", Annotations: right.Annotations}}}, nil},
		"pods elsewhere": {overlay,
			flannelCluster{nodes: []kube.Node{{Name: "a", PodCIDR: "10.32.1.0/24", Annotations: right.Annotations}}},
			[]string{"Node a announces pods in 10.32.1.0/24"}},
		"pods of another CNI": {overlay, flannelCluster{nodes: []kube.Node{{Name: "a", PodCIDR: "10.32.1.0/24"}}}, nil},
		"defaults of Linux": {overlay, conf("kube-flannel/kube-flannel-cfg", ""),
			[]string{"has the VNI 1", "has the port 8472"}},
		"old place": {overlay, conf("kube-system/kube-flannel-cfg", `,"VNI":4096,"Port":8472`),
			[]string{"kube-system/kube-flannel-cfg has the port 8472"}},
		"network": {FlannelAgrees{Backend: "vxlan", VNI: 4096, Port: 4789, Network: "10.10.0.0/16"},
			conf("kube-flannel/kube-flannel-cfg", `,"VNI":4096,"Port":4789`), []string{"has the network 10.244.0.0/16"}},
		"backend of manifest": {bridge, conf("kube-flannel/kube-flannel-cfg", ""), []string{`has the backend "vxlan"`}},
		"not readable":        {overlay, flannelCluster{err: kube.ErrForbidden}, nil},
		"nonsense":            {overlay, flannelCluster{at: "kube-flannel/kube-flannel-cfg", netConf: "{"}, nil},
		"not readable, but VNI": {overlay, flannelCluster{err: kube.ErrForbidden, nodes: []kube.Node{wrong("b")}},
			[]string{"the VNI 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := c.step.Check(t.Context(), c.cluster, &steps.Env{Node: "win-1"})
			if len(c.want) == 0 {
				if err != nil || !change.NoOp() {
					t.Fatalf("%+v, %v", change, err)
				}
				return
			}
			var e *steps.Error
			if !errors.As(err, &e) || e.Code != steps.CodeFailed || e.Remedy == "" {
				t.Fatalf("%+v, %v", change, err)
			}
			for _, w := range c.want {
				if !strings.Contains(e.Detail, w) {
					t.Errorf("%q does not hold %q", e.Detail, w)
				}
			}
		})
	}
}

// A failed question is never agreement.
func TestFlannelAgreesCannotAsk(t *testing.T) {
	f := FlannelAgrees{Backend: "vxlan", VNI: 4096, Port: 4789, Network: "10.244.0.0/16"}
	for _, c := range []struct {
		cluster flannelCluster
		want    error
	}{{flannelCluster{nodeErr: kube.ErrForbidden}, kube.ErrForbidden}, {flannelCluster{nodeErr: kube.ErrUnreachable},
		kube.ErrUnreachable},
		{flannelCluster{err: kube.ErrUnreachable}, kube.ErrUnreachable}} {
		if _, err := f.Check(t.Context(), c.cluster, &steps.Env{Node: "win-1"}); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}
