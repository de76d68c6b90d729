package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/plan/graph"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

var update = flag.Bool("update", false, "update the golden files")

// input is a plan's node with every artifact as a file on the controller.
func input() Input {
	in := Input{
		Node: "win-1", OS: "windows", Arch: "amd64", Plan: "prod", Kubernetes: "1.36.3",
		APIServer: "https://10.0.0.10:6443",
		PodCIDR:   "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12", DNSIP: "10.96.0.10", DNSDomain: "cluster.local",
		Join: Join{Kind: "bootstrap_token", TTL: 15 * time.Minute}, Runtime: Runtime{Kind: "containerd", Version: "2.2.1"},
		Network: Network{Kind: "flannel", Version: "0.28.9", Backend: "vxlan", VNI: 4096, Port: 4789},
		Taints:  []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}},
		Source:  "plan.join.hcl:30,1", Artifacts: map[string]steps.Source{},
	}
	for name, file := range map[string]string{
		"agent": "nodejoin-agent.exe", "kubernetes_node": "kubernetes-node-windows-amd64.tar.gz",
		"containerd":  "containerd-2.2.1-windows-amd64.tar.gz",
		"cni_plugins": "cni-plugins-windows-amd64-v1.9.1.tgz", "flannel_cni": "flannel-amd64.exe",
		"flanneld": "flanneld.exe",
		"docker":   "docker-20.10.24.zip", "mcr": "docker-23.0.1.zip", "crictl": "crictl-v1.30.1-windows-amd64.tar.gz",
	} {
		in.Artifacts[name] = steps.Source{File: "/mirror/" + file, SHA256: strings.Repeat("a", 64)}
	}
	return in
}

// linuxInput is a Linux node of the same cluster.
func linuxInput() Input {
	in := input()
	in.Node, in.OS, in.Taints = "lin-1", "linux", nil
	in.Artifacts = map[string]steps.Source{}
	for name, file := range map[string]string{
		"kubernetes_node": "kubernetes-node-linux-amd64.tar.gz", "containerd": "containerd-2.2.1-linux-amd64.tar.gz",
		"runc": "runc.amd64", "agent": "nodejoin-agent",
		"cni_plugins": "cni-plugins-linux-amd64-v1.9.1.tgz", "flannel_cni": "flannel-amd64", "flanneld": "flanneld-amd64",
	} {
		in.Artifacts[name] = steps.Source{File: "/mirror/" + file, SHA256: strings.Repeat("a", 64)}
	}
	return in
}

func variants() map[string]Input {
	old := input()
	old.Kubernetes, old.Runtime.Version, old.ManagementIP, old.DataDir = "1.30.4", "1.7.28", "10.0.0.21", `D:\nodejoin`
	old.Taints, old.Labels, old.MaxPods = nil, map[string]string{"pool": "win"}, 60
	for name, src := range old.Artifacts {
		src.URL, src.File = "https://mirror.example/"+filepath.Base(src.File)+"?v=1", ""
		old.Artifacts[name] = src
	}
	old.Runtime.Crictl, old.Runtime.Registries = "1.30.1", []Registry{
		{Host: "docker.io", Mirrors: []string{"https://mirror.example"}, CA: "PEM\n"},
		{Host: "registry.example:5000", CA: "PEM\n"}}
	sandbox := input()
	sandbox.Sandbox = true
	oldest := input()
	oldest.Kubernetes, oldest.Runtime.Version = "1.19.16", "1.4.13"
	docker := input()
	docker.Kubernetes, docker.Runtime = "1.23.17",
		Runtime{Kind: "docker", Version: "20.10.24", Config: map[string]any{"debug": true}}
	installed := input()
	installed.Kubernetes, installed.Runtime = "1.22.17",
		Runtime{Kind: "mcr", Installed: true, Pause: "mcr.microsoft.com/oss/kubernetes/pause:3.6"}
	bridge := input()
	bridge.Network = Network{Kind: "flannel", Version: "0.28.9", Backend: "host-gw"}
	held := input()
	held.Network.Placeholder = true
	held.Settings.Steps = StaticAddress(true)
	held.Settings.Steps[0].Source = held.Source
	sdn := input()
	sdn.Network.Delegate = "sdnoverlay"
	sdn.Artifacts["sdn_cni"] = steps.Source{File: "/mirror/windows-container-networking-cni-amd64-v0.3.1.zip",
		SHA256: strings.Repeat("a", 64)}
	none, proxied := input(), input()
	none.Network = Network{Kind: "none"}
	proxied.Network = Network{Kind: "none", HNSNetwork: "Calico", Ready: true}
	bare := linuxInput()
	bare.Network = Network{Kind: "none"}
	bare.Kubernetes, bare.Runtime.Version = "1.34.1", "1.7.28"
	bare.Kubelet.Config = map[string]any{"failSwapOn": false}
	kubeadm, kubeadmOld := input(), input()
	kubeadm.Join.Kind, kubeadm.Join.IgnorePreflightErrors = "kubeadm", []string{"Port-10250"}
	kubeadmOld.Join.Kind, kubeadmOld.Kubernetes = "kubeadm", "1.30.4"
	kubeadmLinux := linuxInput()
	kubeadmLinux.Join.Kind = "kubeadm"
	addons := input()
	addons.Settings.Services = Services{NSSM: true, Priority: "high", LogSize: 20, RestartDelay: 30 * time.Second,
		RestartReset: time.Hour}
	addons.Settings.CSIProxy = &CSIProxy{Version: "1.1.3", WorkingDirs: []string{`D:\a folder`}, Source: addons.Source}
	addons.Settings.Exporter = &Exporter{Version: "0.31.3", Port: 9182, Textfile: `C:\metrics`, Source: addons.Source}
	for name, file := range map[string]string{"nssm": "nssm-2.24.zip", "csi_proxy": "csi-proxy.exe",
		"windows_exporter": "windows_exporter-0.31.3-amd64.exe"} {
		addons.Artifacts[name] = steps.Source{File: "/mirror/" + file, SHA256: strings.Repeat("a", 64)}
	}
	return map[string]Input{"addons": addons, "linux": linuxInput(), "linux-none": bare, "windows": input(),
		"kubeadm": kubeadm, "kubeadm-1.30": kubeadmOld, "kubeadm-linux": kubeadmLinux,
		"windows-1.30": old, "sandbox": sandbox,
		"windows-1.19": oldest, "docker": docker, "docker-installed": installed,
		"host-gw": bridge, "placeholder": held, "sdnoverlay": sdn, "none": none, "none-proxied": proxied}
}

func expand(t *testing.T, in Input) []steps.Spec {
	t.Helper()
	specs, err := Expand(in)
	if err != nil {
		t.Fatal(err)
	}
	return specs
}

// TestContainerdLogEnds: each Windows node with containerd has the service that keeps containerd's log small.
func TestContainerdLogEnds(t *testing.T) {
	for name, in := range variants() {
		if in.OS != "windows" || in.Runtime.Kind != "containerd" {
			continue
		}
		specs := expand(t, in)
		at := slices.IndexFunc(specs, func(s steps.Spec) bool { return s.ID == "node_steps" })
		if at < 0 || !strings.Contains(string(specs[at].Args.JSON()), `containerd\\\\containerd.log`) ||
			!strings.Contains(string(specs[at].Args.JSON()), `\"name\": \"containerd\"`) {
			t.Errorf("%s: nothing cuts containerd's log", name)
		}
		if !slices.ContainsFunc(specs, func(s steps.Spec) bool { return s.ID == "node_service" }) {
			t.Errorf("%s: no service runs the steps", name)
		}
	}
}

// TestGraph checks ids, kinds, edges and arguments of whole recipes.
func TestGraph(t *testing.T) {
	for name, in := range variants() {
		t.Run(name, func(t *testing.T) {
			if name == "sandbox" {
				if d := cmp.Diff(expand(t, input()), expand(t, in)); d != "" {
					t.Errorf("a sandbox gets other steps than a real host (-real +sandbox):\n%s", d)
				}
				return
			}
			var b strings.Builder
			for _, s := range expand(t, in) {
				fmt.Fprintf(&b, "%s (%s): %s\n", s.ID, s.Kind, s.Title)
				if s.OnlyIf != "" {
					fmt.Fprintf(&b, "  only if %s\n", s.OnlyIf)
				}
				if len(s.After) > 0 {
					fmt.Fprintf(&b, "  after %s\n", strings.Join(s.After, ", "))
				}
				if s.Retries > 0 {
					fmt.Fprintf(&b, "  retries %d\n", s.Retries)
				}
				var args bytes.Buffer
				if err := json.Indent(&args, s.Args.JSON(), "  ", "  "); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "  %s\n", args.String())
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("golden differs (-want +have), rewrite with -update:\n%s", d)
			}
		})
	}
}

// TestOrder: every edge points back, both in the recipe's order and in the graph's.
func TestOrder(t *testing.T) {
	for name, in := range variants() {
		t.Run(name, func(t *testing.T) {
			specs := expand(t, in)
			seen := map[string]bool{}
			var g graph.Graph[string]
			id := regexp.MustCompile(`^[a-z0-9_]+$`)
			for _, s := range specs {
				if !id.MatchString(s.ID) || seen[s.ID] {
					t.Errorf("id %q is not usable or not unique", s.ID)
				}
				for _, a := range s.After {
					if !seen[a] {
						t.Errorf("%s comes after %s, which is not before it", s.ID, a)
					}
				}
				if len(s.After) == 0 && !slices.Contains([]string{"flannel_agrees", "node_seen", "preflight"}, s.Kind) {
					t.Errorf("%s waits for nothing, not even for the checks of host and cluster", s.ID)
				}
				if s.Title == "" || len(s.Title) > 72 {
					t.Errorf("%s: title %q", s.ID, s.Title)
				}
				if s.Source != in.Source {
					t.Errorf("%s: source %q", s.ID, s.Source)
				}
				seen[s.ID] = true
				g.Add(s.ID)
			}
			for _, s := range specs {
				if s.OnlyIf != "" && !seen[s.OnlyIf] {
					t.Errorf("%s runs only if %s, which does not exist", s.ID, s.OnlyIf)
				}
				for _, a := range s.After {
					if err := g.Edge(a, s.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
			order, err := g.Order()
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range specs {
				if order[i] != s.ID {
					t.Fatalf("step %d of the graph's order is %s, the recipe has %s there", i, order[i], s.ID)
				}
			}
		})
	}
}

// givenByKind lists the outputs of the kinds that have any.
var givenByKind = map[string][]string{
	"preflight":       {"subnet"},
	"bootstrap_token": {"token"}, "service_account_token": {"token"},
	"node_registered": {"pod_cidr", "subnet_gateway", "uid"}, "node_seen": {"missing"},
	"source_vip": {"address"}, "hns_network_ready": {"management_ip"},
}

// TestReferences: a step refers only to facts, to the cluster's CA, and to outputs of
// steps that it comes after, directly or not.
func TestReferences(t *testing.T) {
	for name, in := range variants() {
		t.Run(name, func(t *testing.T) {
			before := map[string]map[string]bool{}
			kind := map[string]string{}
			for _, s := range expand(t, in) {
				before[s.ID] = map[string]bool{}
				kind[s.ID] = s.Kind
				for _, a := range s.After {
					before[s.ID][a] = true
					for x := range before[a] {
						before[s.ID][x] = true
					}
				}
				for _, r := range steps.ArgRefs(s.Args) {
					step, output, _ := strings.Cut(r, ".")
					switch {
					case r == "cluster.ca" || step == "fact":
					case !before[s.ID][step]:
						t.Errorf("%s refers to %s, but does not come after %s", s.ID, r, step)
					case !slices.Contains(givenByKind[kind[step]], output):
						t.Errorf("%s refers to %s, which kind %s does not output", s.ID, r, kind[step])
					}
				}
			}
		})
	}
}

// driveless matches a path without a drive: a separator at the start of a word, followed by a name. Pipes and
// the gRPC method do not count.
var driveless = regexp.MustCompile(`(^|[\s"'=,])(\\[A-Za-z]|/[a-z]+(/|$))`)

func TestPathsHaveADrive(t *testing.T) {
	allowed := regexp.MustCompile(`\\\\\.\\pipe\\|npipe:////\./pipe/|/runtime\.v1(alpha2)?\.RuntimeService/|^/mirror/`)
	for name, in := range variants() {
		if in.OS != "windows" {
			continue
		}
		for _, s := range expand(t, in) {
			var args any
			if err := json.Unmarshal(s.Args.JSON(), &args); err != nil {
				t.Fatal(err)
			}
			eachString(args, func(text string) {
				text = strings.ReplaceAll(allowed.ReplaceAllString(text, ""), `\\`, `\`)
				if m := driveless.FindString(text); m != "" {
					t.Errorf("%s, %s: path without a drive near %q in\n%s", name, s.ID, m, text)
				}
			})
		}
	}
}

// eachString calls f with each string in v. For a string that is JSON, it calls f with the strings inside.
func eachString(v any, f func(string)) {
	switch t := v.(type) {
	case string:
		var inner any
		text := strings.ReplaceAll(t, "\x00", "") // the marks of references
		if strings.HasPrefix(t, "{") && json.Unmarshal([]byte(text), &inner) == nil {
			eachString(inner, f)
			return
		}
		f(t)
	case []any:
		for _, e := range t {
			eachString(e, f)
		}
	case map[string]any:
		for _, e := range t {
			eachString(e, f)
		}
	}
}

// TestRestarts: if a step writes a file that a service starts from, the service watches the file, and the step
// comes before the service.
func TestRestarts(t *testing.T) {
	for name, in := range variants() {
		t.Run(name, func(t *testing.T) { wantRestarts(t, expand(t, in)) })
	}
}

func wantRestarts(t *testing.T, specs []steps.Spec) {
	writers := map[string]string{} // lower-case path -> step
	for _, s := range specs {
		var a struct{ Path string }
		if json.Unmarshal(s.Args.JSON(), &a) == nil && a.Path != "" &&
			slices.Contains([]string{"file", "binary", "kubeconfig"}, s.Kind) && s.ID != "bootstrap_removed" {
			writers[strings.ToLower(a.Path)] = s.ID
		}
	}
	for _, s := range specs {
		if s.Kind != "service" {
			continue
		}
		var svc kinds.Service
		if err := json.Unmarshal(s.Args.JSON(), &svc); err != nil {
			t.Fatal(err)
		}
		for _, arg := range svc.Command {
			_, path, ok := strings.Cut(arg, "=")
			if !ok {
				path = arg
			}
			id, written := writers[strings.ToLower(path)]
			if !written || id == "bootstrap_kubeconfig" { // read only at a join
				continue
			}
			if path == svc.Command[0] { // a service always watches its program
				continue
			}
			if !slices.ContainsFunc(svc.Watch, func(w string) bool { return strings.EqualFold(w, path) }) {
				t.Errorf("%s is started with %s and does not watch it", s.ID, path)
			}
			if !slices.Contains(s.After, id) {
				t.Errorf("%s is started with %s and does not come after %s", s.ID, path, id)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	unsupported := func(err error) bool { return errors.As(err, new(*UnsupportedError)) }
	for name, c := range map[string]struct {
		change func(*Input)
		want   func(error) bool
	}{
		"linux with kubeconfig": {func(in *Input) { *in = linuxInput(); in.Join.Kind = "kubeconfig" }, unsupported},
		"linux with old kubeadm": {func(in *Input) {
			*in = linuxInput()
			in.Join.Kind, in.Kubernetes = "kubeadm", "1.29.15"
		}, unsupported},
		"plan9":      {func(in *Input) { in.OS = "plan9" }, unsupported},
		"cri-o":      {func(in *Input) { in.Runtime.Kind = "cri-o" }, unsupported},
		"new docker": {func(in *Input) { in.Runtime.Kind = "docker" }, unsupported},
		"linux mcr": {func(in *Input) {
			in.OS, in.Kubernetes, in.Runtime.Kind = "linux", "1.23.17", "mcr"
		}, unsupported},
		"sdn docker": {func(in *Input) {
			in.Kubernetes, in.Runtime.Kind, in.Network.Delegate = "1.23.17", "docker", "sdnoverlay"
		}, unsupported},
		"calico":      {func(in *Input) { in.Network.Kind = "calico" }, unsupported},
		"wireguard":   {func(in *Input) { in.Network.Backend = "wireguard" }, unsupported},
		"delegate":    {func(in *Input) { in.Network.Delegate = "win-bridge" }, unsupported},
		"low VNI":     {func(in *Input) { in.Network.VNI = 1 }, unsupported},
		"high VNI":    {func(in *Input) { in.Network.VNI = 70000 }, unsupported},
		"other port":  {func(in *Input) { in.Network.Port = 8472 }, unsupported},
		"old kubeadm": {func(in *Input) { in.Join.Kind, in.Kubernetes = "kubeadm", "1.29.15" }, unsupported},
		"certificate": {func(in *Input) { in.Join.Kind = "certificate" }, unsupported},
		"old kubelet": {func(in *Input) { in.Kubernetes = "1.18.20" }, unsupported},
		"old runtime": {func(in *Input) { in.Runtime.Version = "1.5.18" }, unsupported},
		"new runtime": {func(in *Input) { in.Kubernetes = "1.22.17" }, unsupported},
		"no hosts.toml": {func(in *Input) {
			in.Kubernetes, in.Runtime.Version, in.Runtime.Registries = "1.23.17", "1.4.13", []Registry{{Host: "docker.io"}}
		}, unsupported},
		"no version": {func(in *Input) { in.Kubernetes = "latest" }, func(err error) bool { return err != nil }},
		"upper case": {func(in *Input) { in.Node = "WIN-1" }, func(err error) bool { return err != nil }},
		"plain http": {func(in *Input) {
			in.APIServer = "http://10.0.0.10:8080"
		}, func(err error) bool { return err != nil }},
		"bad domain": {func(in *Input) { in.DNSDomain = "a\nb" }, func(err error) bool { return err != nil }},
		"CNI archive": {func(in *Input) { in.Artifacts["flannel_cni"] = steps.Source{File: "flannel.tgz"} },
			func(err error) bool { return err != nil }},
		"no flanneld": {func(in *Input) { delete(in.Artifacts, "flanneld") }, func(err error) bool {
			m := (*MissingArtifactError)(nil)
			return errors.As(err, &m) && m.Name == "flanneld"
		}},
		"no node file": {func(in *Input) {
			delete(in.Artifacts, "kubernetes_node")
		}, func(err error) bool { return errors.As(err, new(*MissingArtifactError)) }},
	} {
		t.Run(name, func(t *testing.T) {
			in := input()
			c.change(&in)
			specs, err := Expand(in)
			if specs != nil || !c.want(err) {
				t.Errorf("%d steps, error %v", len(specs), err)
			}
		})
	}
}

// TestArtifacts: the list has exactly the artifacts that Expand needs.
func TestArtifacts(t *testing.T) {
	for name := range variants() {
		names := Artifacts(variants()[name])
		for _, n := range names {
			in := variants()[name]
			delete(in.Artifacts, n)
			if _, err := Expand(in); !errors.As(err, new(*MissingArtifactError)) {
				t.Errorf("%s without %s: %v", name, n, err)
			}
		}
		in := variants()[name]
		maps.DeleteFunc(in.Artifacts, func(n string, _ steps.Source) bool { return !slices.Contains(names, n) })
		if _, err := Expand(in); err != nil {
			t.Errorf("%s needs more than it lists: %v", name, err)
		}
	}
}
