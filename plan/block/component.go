package block

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
)

// Components are the blocks that change what a recipe writes for a program of Kubernetes, with
// the program's name in the tables.
var Components = []struct{ Block, program string }{
	{"kubelet", compat.KubeletProgram},
	{"kube_proxy", compat.KubeProxyProgram},
}

// componentSpecs are the blocks that may stand in a profile and in a node.
var componentSpecs = []*eval.Spec{
	{Name: "kubelet", One: true, Doc: "settings of the kubelet",
		Attrs: componentAttrs("KubeletConfiguration, kubelet.config.k8s.io/v1beta1")},
	{Name: "kube_proxy", One: true, Doc: "settings of kube-proxy", Attrs: append([]eval.Attr{
		{Name: enabled, Typ: cty.Bool, Doc: "Linux: false: nodejoin installs none, because the cluster brings it as a " +
			"DaemonSet, as kubeadm's do, or something else that does its work; an apply removes nodejoin's"},
	}, componentAttrs("KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1")...)},
}

// enabled is the argument of the kube_proxy block that says whether there is one.
const enabled = "enabled"

func componentAttrs(file string) []eval.Attr {
	return []eval.Attr{
		{Name: "config", Typ: cty.DynamicPseudoType, Doc: "fields of its configuration file (" + file +
			"), merged by key into what nodejoin writes; null removes a field"},
		{Name: "extra_args", Typ: eval.Strings, Doc: "further flags of its command line, \"--name=value\""},
	}
}

// component is a kubelet or kube_proxy block.
type component struct {
	Config map[string]any
	Args   []string
	On     *bool // nil = nothing is said of it
	Only   []osOnly
}

// osOnly is a field that nodes of one OS cannot have. The OS is known only once a node is laid
// over its profile.
type osOnly struct {
	Not   string // "windows" or "linux"
	Field string // with dots
	At    hcl.Range
	Why   string // a sentence without its end
}

// componentBlocks reads the kubelet and kube_proxy blocks of a profile or node.
func componentBlocks(s *eval.Section, ctx *hcl.EvalContext, version string) map[string]component {
	out := map[string]component{}
	for i, k := range Components {
		for _, b := range s.Blocks.OfType(k.Block) {
			if _, again := out[k.Block]; again {
				continue // reported by section
			}
			in := s.Scope.Section(componentSpecs[i], b, ctx)
			j := &componentJudge{s: in, block: k.Block, program: k.program, version: version}
			config, args := j.config(), j.args()
			out[k.Block] = component{Config: config, Args: args, On: j.on(), Only: j.only}
			s.OK = s.OK && in.OK
		}
	}
	return out
}

// over returns own laid over base.
func (own component) over(base component) component {
	out := component{Config: recipe.Merge(base.Config, own.Config), Args: slices.Clone(base.Args), On: cmp.Or(own.On,
		base.On), Only: slices.Clone(own.Only)}
	for _, o := range base.Only { // what own says of the same field takes its place
		if _, given := fieldOf(own.Config, strings.Split(o.Field, ".")); !given && (o.Field != enabled || own.On == nil) {
			out.Only = append(out.Only, o)
		}
	}
	for _, a := range own.Args {
		same := func(b string) bool { return host.FlagName(b) == host.FlagName(a) }
		if i := slices.IndexFunc(out.Args, same); i >= 0 {
			out.Args[i] = a
			continue
		}
		out.Args = append(out.Args, a)
	}
	return out
}

// fieldOf is the value of a field, and whether it is written at all, perhaps as null.
func fieldOf(config map[string]any, path []string) (v any, given bool) {
	v, given = config[path[0]]
	if inner, ok := v.(map[string]any); ok && len(path) > 1 {
		return fieldOf(inner, path[1:])
	}
	return v, given
}

func componentsOver(own, base map[string]component) map[string]component {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]component{}
	}
	for name, o := range own {
		out[name] = o.over(base[name])
	}
	return out
}

// componentJudge checks one block against the version tables.
type componentJudge struct {
	s              *eval.Section
	block, program string
	version        string // of Kubernetes; "" = not known
	only           []osOnly
}

func (j *componentJudge) fail(at hcl.Range, summary, detail string, args ...any) {
	j.s.FailAt(at, summary, detail, args...)
}

// on reads the argument "enabled"; nil when there is none.
func (j *componentJudge) on() *bool {
	v, ok := j.s.Values[enabled]
	if !ok {
		return nil
	}
	on := v.True()
	if !on {
		j.only = append(j.only, osOnly{"windows", enabled, j.s.At(enabled),
			"a cluster that brings kube-proxy to Windows nodes brings their network, too (network \"none\")"})
	}
	return &on
}

// config reads and checks the argument "config"; nil when there is none.
func (j *componentJudge) config() map[string]any {
	out := j.s.Object("config", "the program's configuration file is one")
	j.fields(nil, out)
	return out
}

// at returns the place of a field, or of the nearest block around it.
func (j *componentJudge) at(path []string) hcl.Range {
	at := j.s.At("config")
	a := j.s.Attrs["config"]
	if a == nil {
		return at
	}
	expr := a.Expr
	for i, name := range path {
		pairs, list := hcl.ExprMap(expr)
		if list.HasErrors() {
			return at
		}
		n := slices.IndexFunc(pairs, func(p hcl.KeyValuePair) bool {
			k, list := p.Key.Value(nil)
			return !list.HasErrors() && k.IsKnown() && !k.IsNull() && k.Type() == cty.String && k.AsString() == name
		})
		if n < 0 {
			return at
		}
		expr, at = pairs[n].Value, pairs[n].Key.Range()
		if i == len(path)-1 {
			at = hcl.RangeBetween(at, expr.Range())
		}
	}
	return at
}

// fields checks every field below a path.
func (j *componentJudge) fields(path []string, object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		here := append(slices.Clone(path), name)
		dotted := strings.Join(here, ".")
		if why := ownedFields[j.block][dotted]; why != "" {
			j.fail(j.at(here), "field that nodejoin sets", "The field %q of the %s cannot be given here: %s.", dotted,
				j.program, why)
			continue
		}
		if dotted == "featureGates" {
			j.gates(here, object[name])
			continue
		}
		if inner, ok := object[name].(map[string]any); ok && j.hasFields(dotted) {
			j.fields(here, inner)
			continue
		}
		if j.version == "" {
			continue // what is wrong with it was reported
		}
		if j.hasFields(dotted) && object[name] != nil && !isList(object[name]) {
			j.fail(j.at(here), "wrong type", "The field %q of the %s holds further fields, so it wants an object.", dotted,
				j.program)
			continue
		}
		v := compat.CheckField(j.program, dotted, j.version)
		if j.verdict(j.at(here), "configuration field", v) {
			j.systems(here, object[name])
		}
		if list, ok := object[name].([]any); ok && j.hasFields(dotted) {
			for _, e := range list {
				if inner, ok := e.(map[string]any); ok {
					j.fields(here, inner)
				}
			}
		}
	}
}

func isList(v any) bool { _, ok := v.([]any); return ok }

// hasFields reports whether the tables know fields below a path.
func (j *componentJudge) hasFields(path string) bool {
	if j.version == "" {
		return true
	}
	return slices.ContainsFunc(compat.Fields(j.program, j.version), func(f string) bool {
		return strings.HasPrefix(f,
			path+".")
	})
}

// verdict reports a flag, field or gate that the tables reject; true if they accept it.
func (j *componentJudge) verdict(at hcl.Range, what string, v compat.Verdict) bool {
	switch v.Status {
	case compat.OK, compat.NoVersion:
		return true
	case compat.Deprecated:
		j.s.Scope.Warn(at, "deprecated "+what, "%s: %s%s", v.Name, v.Why, Instead(v))
		return true
	}
	summary := map[compat.Status]string{compat.Unknown: "unknown ", compat.Removed: "removed ", compat.NotYet: "too new ",
		compat.Refused: "refused "}[v.Status] + what
	detail := fmt.Sprintf("%s cannot be given to the %s of Kubernetes %s: %s%s", v.Name, j.program, j.version, v.Why,
		Instead(v))
	if v.Status == compat.Unknown && v.Instead != "" {
		detail = fmt.Sprintf("%s does not exist in the %s of Kubernetes %s, which would refuse to start: %s. Did you "+
			"mean %q?", v.Name, j.program, j.version, v.Why, v.Instead)
	}
	j.fail(at, summary, "%s", detail)
	return false
}

// Instead returns the end of a sentence: what to use, if the table has something.
func Instead(v compat.Verdict) string {
	if v.Instead == "" {
		return "."
	}
	return ". Instead: " + v.Instead + "."
}

// systems notes fields that the programs refuse or ignore on one operating system
// (kubernetes pkg/kubelet/apis/config/validation/validation_windows.go; #123137).
func (j *componentJudge) systems(path []string, v any) {
	if v == nil {
		return
	}
	field := strings.Join(path, ".")
	note := func(not, why string) { j.only = append(j.only, osOnly{not, field, j.at(path), why}) }
	if j.program == compat.KubeProxyProgram {
		switch {
		case field == "mode":
			note("windows", "on Windows there is kernelspace only")
			if v == "kernelspace" {
				note("linux", "kernelspace is the one of Windows; on Linux there are \"iptables\" and \"nftables\"")
			}
		case path[0] == "winkernel":
			note("linux", "it is for the kernelspace proxier of Windows")
		case slices.Contains([]string{"iptables", "ipvs", "nftables"}, path[0]):
			note("windows", "kube-proxy on Windows does not read it")
		}
		return
	}
	wrong := false
	switch field {
	case "cgroupsPerQOS":
		wrong = v == true
	case "enforceNodeAllocatable":
		list, _ := v.([]any)
		wrong = slices.ContainsFunc(list, func(e any) bool { return e != "none" })
	case "failCgroupV1", "failSwapOn", "cgroupRoot", "makeIPTablesUtilChains", "protectKernelDefaults", "systemCgroups",
		"kubeletCgroups":
		note("windows", "Windows has neither control groups nor iptables, and the kubelet does not read it there")
	}
	if !wrong {
		return
	}
	why := "Windows has no cgroups, so it cannot have this value: the kubelet ignores it, with a warning in its log"
	if k, err := compat.Kubelet(j.version); err == nil && k.CgroupsPerQOSFatal {
		why = "Windows has no cgroups, so it cannot have this value: the kubelet refuses to start with it"
	}
	note("windows", why)
}

// gates checks the field featureGates.
func (j *componentJudge) gates(path []string, v any) {
	object, ok := v.(map[string]any)
	if !ok {
		if v != nil {
			j.fail(j.at(path), "wrong type",
				"The field \"featureGates\" wants an object of true and false: featureGates = { NAME = true }.")
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		here := append(slices.Clone(path), name)
		on, isBool := object[name].(bool)
		switch {
		case object[name] == nil:
		case !isBool:
			j.fail(j.at(here), "wrong type", "The feature gate %q is true or false.", name)
		case j.version != "":
			j.verdict(j.at(here), "feature gate", compat.CheckGate(name, on, j.version).Verdict)
		}
	}
}

// args reads and checks the argument "extra_args".
func (j *componentJudge) args() []string {
	list := j.s.Strs("extra_args")
	seen := map[string]bool{}
	for i, a := range list {
		at := j.s.AtIndex("extra_args", i)
		name := host.FlagName(a)
		switch {
		case !strings.HasPrefix(a, "-") || name == "" || strings.ContainsAny(name, " \t"):
			j.fail(at, "invalid flag", "%q is not a flag. Each element is one flag with its value, \"--name=value\".", a)
		case !strings.HasPrefix(a, "--") && name != "v":
			j.fail(at, "invalid flag", "%q would be read as several one-letter flags. Write %q.", a, "-"+a)
		case seen[name]:
			j.fail(at, "duplicate flag", "The flag --%s is given twice here, and the last would win. Remove one of them.", name)
		case endingFlags[name]:
			j.fail(at, "flag that ends the program",
				"With --%s the %s does one thing and ends, so it would not run as a service. Remove it.", name, j.program)
		case ownedFlags[j.block][name] != "":
			j.fail(at, "flag that nodejoin sets", "The flag --%s of the %s cannot be given here: %s.", name, j.program,
				ownedFlags[j.block][name])
		default:
			j.flag(at, a, name)
		}
		seen[name] = true
	}
	return list
}

func (j *componentJudge) flag(at hcl.Range, arg, name string) {
	if j.version == "" {
		return
	}
	v := compat.CheckFlag(j.program, arg, j.version)
	if why := ownedOldFlags[name]; why != "" && v.Accepted() {
		j.fail(at, "flag that nodejoin sets", "The flag --%s of the %s cannot be given here: %s.", name, j.program, why)
		return
	}
	if j.program == compat.KubeProxyProgram && v.Accepted() && !proxyFlags[name] {
		detail := "Remove it."
		if f := compat.CheckField(j.program, "--"+name, j.version); f.Instead != "" {
			detail = fmt.Sprintf("Give the field instead: config = { %s = ...%s }.", strings.ReplaceAll(f.Instead, ".",
				" = { "), strings.Repeat(" }", strings.Count(f.Instead, ".")))
		}
		j.fail(at, "flag without effect", "kube-proxy ignores --%s, as nodejoin runs it with a configuration file. %s", name,
			detail)
		return
	}
	j.verdict(at, "flag", v)
}

// endingFlags make the programs print or write something and exit.
var endingFlags = map[string]bool{"version": true, "help": true, "h": true, "cleanup": true, "init-only": true,
	"write-config-to": true}

// proxyFlags are the flags that kube-proxy heeds besides its configuration file:
// those of its log (kubernetes v1.36.3 cmd/kube-proxy/app/options.go, Complete).
var proxyFlags = map[string]bool{"v": true, "vmodule": true, "logging-format": true, "log-flush-frequency": true,
	"log-json-info-buffer-size": true,
	"log-json-split-stream":     true, "log-text-info-buffer-size": true, "log-text-split-stream": true}

const (
	byManagementIP  = "it is the node's address; give the argument \"management_ip\" of the node"
	byManagementIPs = "it holds the node's addresses; give the arguments \"management_ip\" and \"management_ip6\" of " +
		"the node"
	byName    = "it is the name of the Node; give the argument \"name\" of the node"
	byTaints  = "give taint blocks of the profile or node"
	byNetwork = "it must be the network that flanneld makes, which the network block says"
	byGate    = "nodejoin asks this address whether the program is healthy"
	byPods    = "give the argument \"pod_cidr\" of the cluster"
	byRecipe  = "nodejoin writes the file, and the other steps of the node rely on its place"
	byInit    = "it is what the machine's service manager has, and the runtime is told the same"
	byRuntime = "it is that of the runtime block"
	byLog     = "nodejoin gives each program its log file and shows its end when the program fails"
	byJoin    = "it holds the credentials that nodejoin obtains for the node"
)

// ownedFields are fields of the configuration files that other steps of the node depend on, or
// that another block sets, with what to do instead.
var ownedFields = map[string]map[string]string{
	"kubelet": {
		"apiVersion": byRecipe, "kind": byRecipe,
		"authentication.x509.clientCAFile": "it is the cluster's CA, which nodejoin writes; its pin is the argument " +
			"\"ca_hash\" of the cluster",
		"containerRuntimeEndpoint": byRuntime,
		"imageServiceEndpoint":     byRuntime,
		"registerWithTaints":       byTaints,
		"registerNode":             "nodejoin waits for the Node to be registered",
		"maxPods":                  "give the argument \"max_pods\" of the profile or node",
		"cgroupDriver":             byInit,
		"clusterDNS":               "give the argument \"dns_ip\" of the cluster",
		"clusterDomain":            "give the argument \"dns_domain\" of the cluster",
		"podCIDR":                  byPods,
		"healthzPort":              byGate, "healthzBindAddress": byGate,
		"port": "the control plane and the firewall rule of the node use port 10250",
	},
	"kube_proxy": {
		"apiVersion": byRecipe, "kind": byRecipe,
		"bindAddress":                 byManagementIP,
		"clientConnection.kubeconfig": byJoin,
		"clusterCIDR":                 byPods,
		"hostnameOverride":            byName,
		"healthzBindAddress":          byGate,
		"winkernel.networkName":       byNetwork,
		"winkernel.sourceVip":         "nodejoin reserves it on the machine, once its network is there",
		"windowsRunAsService": "kube-proxy reads it too late to have an effect, so nodejoin gives the flag " +
			"--windows-service",
	},
}

// ownedOldFlags are flags that nodejoin sets itself for older versions.
var ownedOldFlags = map[string]string{
	"container-runtime": byRuntime, "docker-endpoint": byRuntime,
	"pod-infra-container-image": "give the argument \"pause_image\" of the runtime block",
	"network-plugin":            byRecipe, "cni-bin-dir": byRecipe, "cni-conf-dir": byRecipe, "cni-cache-dir": byRecipe,
	"logtostderr": byLog, "log-file": byLog, "log-dir": byLog,
}

// ownedFlags are the flags that nodejoin sets itself, and those for the fields above.
var ownedFlags = map[string]map[string]string{
	"kubelet": {
		"windows-service": byRecipe, "config": byRecipe, "config-dir": "give the fields in the argument \"config\"",
		"kubeconfig": byJoin, "bootstrap-kubeconfig": byJoin, "cert-dir": byJoin, "root-dir": byRecipe,
		"hostname-override": byName, "node-ip": byManagementIPs,
		"register-node":  "nodejoin waits for the Node to be registered",
		"node-labels":    "give the argument \"labels\" of the profile or node, which also keeps them as they are",
		"feature-gates":  "give the field: config = { featureGates = { NAME = true } }",
		"client-ca-file": "it is the cluster's CA, which nodejoin writes", "container-runtime-endpoint": byRuntime,
		"image-service-endpoint": byRuntime, "register-with-taints": byTaints,
		"max-pods":       "give the argument \"max_pods\" of the profile or node",
		"cluster-dns":    "give the argument \"dns_ip\" of the cluster",
		"cluster-domain": "give the argument \"dns_domain\" of the cluster", "pod-cidr": byPods,
		"healthz-port": byGate, "healthz-bind-address": byGate,
		"port": "the control plane and the firewall rule of the node use port 10250",
		"cgroups-per-qos": "give the field cgroupsPerQOS in the argument \"config\"; on Windows nodejoin gives " +
			"the only value that works",
		"enforce-node-allocatable": "give the field enforceNodeAllocatable in the argument \"config\"; on Windows " +
			"nodejoin gives the only value that works",
		"cgroup-driver": byInit,
	},
	"kube_proxy": {
		"windows-service": byRecipe, "config": byRecipe, "kubeconfig": byJoin,
		"master":            "give the argument \"api_server\" of the cluster",
		"hostname-override": byName, "bind-address": byManagementIP, "cluster-cidr": byPods,
		"proxy-mode":   "give the field mode in the argument \"config\"; on Windows there is kernelspace only",
		"network-name": byNetwork, "source-vip": "nodejoin reserves it on the machine, once its network is there",
		"healthz-bind-address": byGate, "healthz-port": byGate,
	},
}
