package recipe

import (
	"bytes"
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// TestShape: nodes of one shape get their own name and address, as strings, wherever the recipe has them, and
// nothing from each other.
func TestShape(t *testing.T) {
	in := input()
	in.ManagementIP = "10.0.0.1"
	in.KubeProxy.Config = map[string]any{"winkernel": map[string]any{"enableDSR": true}} // rewrites the file
	s, err := NewShape(in)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(s.Steps())
	if err != nil {
		t.Fatal(err)
	}
	// As plain YAML most of these are not strings.
	for i, name := range []string{"win-1", "123", "1e3", "true", "null", "0x1f", "a.b"} {
		address := []string{"10.0.0.21", "10.1.2.3"}[i%2]
		specs, err := s.Expand(nil, Own{Node: name, Address: address})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, x := range specs {
			if bytes.Contains(x.Args.JSON(), []byte("node.name")) ||
				bytes.Contains(x.Args.JSON(), []byte("node.management_ip")) ||
				steps.HasRef(x.Title) {
				t.Errorf("%s, %s: not filled: %s %s", name, x.ID, x.Title, x.Args.JSON())
			}
			switch x.ID {
			case "kube_proxy_config":
				var args kinds.File
				var file struct{ HostnameOverride, BindAddress any }
				if err := json.Unmarshal(x.Args.JSON(), &args); err != nil {
					t.Fatal(err)
				}
				if err := yaml.Unmarshal([]byte(steps.Resolve(args.Content,
					map[string]string{"source_vip.address": "10.244.1.2"})), &file); err != nil {
					t.Fatal(err)
				}
				if file.HostnameOverride != name || file.BindAddress != address {
					t.Errorf("kube-proxy of %s at %s gets %v at %v", name, address, file.HostnameOverride, file.BindAddress)
				}
				seen++
			case "kubelet":
				if !bytes.Contains(x.Args.JSON(), []byte(`"--hostname-override=`+name+`","--node-ip=`+address+`"`)) {
					t.Errorf("kubelet of %s at %s: %s", name, address, x.Args.JSON())
				}
				seen++
			}
		}
		if seen != 2 {
			t.Errorf("%d steps were checked, want 2", seen)
		}
	}
	if after, err := json.Marshal(s.Steps()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("Expand changed the shape (%v)", err)
	}
	for _, name := range []string{"", "WIN-1", "a b", "a\"b", "-a", "a\x00b"} {
		if specs, err := s.Expand(nil, Own{Node: name}); err == nil {
			t.Errorf("%q is accepted as a name: %d steps", name, len(specs))
		}
	}
	if specs, err := s.Expand(nil, Own{Node: "a", Address: "10.0.0.1'"}); err == nil {
		t.Errorf("an invalid address is accepted: %d steps", len(specs))
	}
}

// TestShapeKey: name and address do not count, everything else does.
func TestShapeKey(t *testing.T) {
	key := func(change func(*Input)) string {
		in := input()
		in.ManagementIP = "10.0.0.1"
		change(&in)
		k, err := ShapeKey(in)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	base := key(func(*Input) {})
	if key(func(in *Input) { in.Node, in.ManagementIP = "b", "10.0.0.2" }) != base {
		t.Error("name or address counts")
	}
	for name, change := range map[string]func(*Input){
		"address of the host": func(in *Input) { in.ManagementIP = "" },
		"label":               func(in *Input) { in.Labels = map[string]string{"a": "b"} },
		"taint":               func(in *Input) { in.Taints = append(in.Taints, kube.Taint{Key: "a", Effect: "NoExecute"}) },
		"build":               func(in *Input) { in.Build = "10.0.26100" },
		"field":               func(in *Input) { in.Kubelet.Config = map[string]any{"a": 1} },
		"flag":                func(in *Input) { in.KubeProxy.Args = []string{"--v=4"} },
		"source":              func(in *Input) { in.Source = "x" },
		"artifact":            func(in *Input) { in.Artifacts["flanneld"] = steps.Source{File: "/x"} },
	} {
		if key(change) == base {
			t.Errorf("%s does not count", name)
		}
	}
}
