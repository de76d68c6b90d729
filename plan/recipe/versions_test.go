package recipe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// flagsWithoutField are deprecated flags in versions without a replacement: dockershim's
// flags, and --resolv-conf, because the field has no empty value before 1.23.
var flagsWithoutField = map[string]bool{"network-plugin": true, "cni-bin-dir": true, "cni-conf-dir": true,
	"cni-cache-dir":                true,
	"image-pull-progress-deadline": true, "docker-endpoint": true, "resolv-conf": true}

// TestVersionsAccept looks up everything that the recipe passes to the kubelet and to kube-proxy (flags,
// configuration fields and feature gates) in the tables of each minor version, for each runtime.
func TestVersionsAccept(t *testing.T) {
	_, newest := compat.KubernetesRange()
	for minor := 19; ; minor++ {
		version := fmt.Sprintf("1.%d.0", minor)
		for _, r := range []Runtime{{Kind: "containerd", Version: "1.4.13"}, {Kind: "containerd", Version: "1.7.28"},
			{Kind: "containerd", Version: "2.3.0"},
			{Kind: "docker", Version: "20.10.24"}, {Kind: "mcr", Installed: true}} {
			possible := compat.CheckDocker(version).Accepted()
			if r.Kind == "containerd" {
				possible = compat.CheckContainerd(version, r.Version).Accepted()
			}
			in := input()
			in.Kubernetes, in.Runtime, in.MaxPods = version, r, 50
			specs, err := Expand(in)
			if possible != (err == nil) {
				t.Errorf("%s with %s %s: the tables say %v, the recipe %v", version, r.Kind, r.Version, possible, err)
			}
			if err != nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s-%s", version, r.Kind, r.Version), func(t *testing.T) { acceptedBy(t, version, specs) })
			in.Network, in.PodCIDR, in.ServiceCIDR = Network{Kind: "none", HNSNetwork: "Calico"},
				"10.244.0.0/16,fd00:10:244::/56", "10.96.0.0/12,fd00:10:96::/112"
			if k, _ := compat.Kubelet(version); !k.DualStack {
				continue
			}
			specs, err = Expand(in)
			if err != nil {
				t.Error(err)
			}
			t.Run(fmt.Sprintf("%s/%s-%s/dual-stack", version, r.Kind, r.Version), func(t *testing.T) {
				acceptedBy(t, version, specs)
			})
		}
		if strings.HasPrefix(version, newest+".") {
			return
		}
	}
}

func acceptedBy(t *testing.T, version string, specs []steps.Spec) {
	k, err := compat.Kubelet(version)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, s := range specs {
		program := map[string]string{"kubelet": compat.KubeletProgram, "kubelet_config": compat.KubeletProgram,
			"kube_proxy": compat.KubeProxyProgram, "kube_proxy_config": compat.KubeProxyProgram}[s.ID]
		if program == "" {
			continue
		}
		seen++
		switch s.Kind {
		case "service":
			var svc kinds.Service
			if err := json.Unmarshal(s.Args.JSON(), &svc); err != nil {
				t.Fatal(err)
			}
			acceptedFlags(t, program, version, k, svc.Command)
		case "file":
			var f kinds.File
			if err := json.Unmarshal(s.Args.JSON(), &f); err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := yaml.Unmarshal([]byte(strings.ReplaceAll(f.Content, "\x00", "")), &fields); err != nil {
				t.Fatal(err)
			}
			acceptedFields(t, program, version, "", fields)
		}
	}
	if seen != 4 {
		t.Errorf("found %d of the 4 steps that configure the programs", seen)
	}
}

// acceptedFlags checks the arguments after the program. The log runner comes before the
// program in versions whose node archive has it.
func acceptedFlags(t *testing.T, program, version string, k compat.Kubernetes, command []string) {
	at := 0
	for i, a := range command {
		if strings.HasSuffix(a, `\`+program+".exe") {
			at = i
		}
	}
	if k.LogRunner != strings.HasSuffix(command[0], `\kube-log-runner.exe`) || k.LogRunner == (at == 0) {
		t.Errorf("the node archive has kube-log-runner: %v, and the command is %q", k.LogRunner, command)
	}
	for _, a := range command[at+1:] {
		switch v := compat.CheckFlag(program, a, version); {
		case v.Status == compat.Deprecated && flagsWithoutField[strings.TrimPrefix(v.Name, "--")]:
		case v.Status != compat.OK:
			t.Errorf("%s: %v: %s", a, v.Status, v.Why)
		}
	}
}

func acceptedFields(t *testing.T, program, version, path string, fields map[string]any) {
	for name, value := range fields {
		at := strings.TrimPrefix(path+"."+name, ".")
		if at == "featureGates" {
			for gate, on := range value.(map[string]any) {
				if g := compat.CheckGate(gate, on == true, version); g.Status != compat.OK {
					t.Errorf("feature gate %s: %v: %s", gate, g.Status, g.Why)
				}
			}
			continue
		}
		if inner, ok := value.(map[string]any); ok {
			acceptedFields(t, program, version, at, inner)
			continue
		}
		if v := compat.CheckField(program, at, version); v.Status != compat.OK {
			t.Errorf("%s: %v: %s", at, v.Status, v.Why)
		}
		list, _ := value.([]any)
		for _, e := range list {
			if inner, ok := e.(map[string]any); ok {
				acceptedFields(t, program, version, at, inner)
			}
		}
	}
}
