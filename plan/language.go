package plan

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// blockSpec describes a block of the language. The specs are what blocks are
// decoded with, so that a reference generated from them cannot go stale.
type blockSpec struct {
	name   string
	labels []string
	doc    string
	attrs  []attrSpec
	blocks []*blockSpec
	open   bool // takes any attribute: locals
	// one: the block may appear only once in its parent.
	one bool
	// kinds are what the block takes by its first label; nil = the same for every label.
	kinds map[string]*blockSpec
}

// kind is what a block takes by its first label. A label that is unknown is
// reported, and gives nil.
func (c *compiler) kind(s *blockSpec, b *hcl.Block) *blockSpec {
	k := s.kinds[b.Labels[0]]
	if k == nil {
		c.diags.fail(b.LabelRanges[0], "unknown kind", "%s", unknownName(s.name, b.Labels[0], sortedKeys(s.kinds)))
	}
	return k
}

// attrSpec describes one argument of a block.
type attrSpec struct {
	name     string
	typ      cty.Type
	required bool
	static   bool // read as written (a reference, a type), not evaluated with the others
	empty    bool // "" is a value like any other
	secret   bool // it may be sensitive
	doc      string
}

// title names a block for people: connection "ssh".
func (s *blockSpec) title(b *hcl.Block) string {
	if len(b.Labels) == 0 {
		return s.name
	}
	return s.name + " " + quote(b.Labels[0])
}

func (s *blockSpec) attr(name string) (attrSpec, bool) {
	for _, a := range s.attrs {
		if a.name == name {
			return a, true
		}
	}
	return attrSpec{}, false
}

// schema is what HCL is told. Arguments that are missing are reported by section.
func (s *blockSpec) schema() *hcl.BodySchema {
	out := &hcl.BodySchema{}
	for _, a := range s.attrs {
		out.Attributes = append(out.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	for _, b := range s.blocks {
		out.Blocks = append(out.Blocks, hcl.BlockHeaderSchema{Type: b.name, LabelNames: b.labels})
	}
	return out
}

var (
	strings_ = cty.List(cty.String)
	strMap   = cty.Map(cty.String)
)

var taintSpec = &blockSpec{name: "taint", doc: "a taint of the Node", attrs: []attrSpec{
	{name: "key", typ: cty.String, required: true, doc: "key of the taint"},
	{name: "value", typ: cty.String, empty: true, doc: "its value"},
	{name: "effect", typ: cty.String, required: true, doc: "NoSchedule, PreferNoSchedule or NoExecute"},
}}

// machineAttrs may stand in a profile and in a node; those of the node win.
var machineAttrs = []attrSpec{
	{name: "os", typ: cty.String, doc: "\"windows\" or \"linux\""},
	{name: "arch", typ: cty.String, doc: "\"amd64\" (default) or \"arm64\""},
	{name: "build", typ: cty.String, doc: "Windows build that the machine has at least, for example 10.0.20348; versions are held against it, and the machine's when it joins"},
	{name: "data_dir", typ: cty.String, doc: "nodejoin's own folder on the machine; default by OS"},
	{name: "max_pods", typ: cty.Number, doc: "most pods on the node; default of the kubelet"},
	{name: "labels", typ: strMap, doc: "labels of the Node"},
	{name: "on_failure", typ: cty.String, doc: "what becomes of a machine on which a step fails: \"keep\" leaves it to the next apply, \"rollback\" makes it as it was before the run; default: an upgrade of a Ready Node is rolled back, all else kept"},
	{name: "waive", typ: strings_, doc: "ids of findings of the preflight that do not count (listed under Findings); those of the profile and of the node together"},
}

var connectionSpecs = map[string]*blockSpec{
	"ssh": {name: "connection", doc: "over SSH", attrs: []attrSpec{
		{name: "host", typ: cty.String, required: true, doc: "address or name, or a Host of ssh_config"},
		{name: "port", typ: cty.Number, doc: "default 22 or what ssh_config says"},
		{name: "user", typ: cty.String, doc: "default what ssh_config says"},
		{name: "identity", typ: strings_, doc: "private key files on the controller; default ssh_config, the agent and the usual names"},
		{name: "known_hosts", typ: strings_, doc: "files of host keys; default ssh_config or ~/.ssh/known_hosts"},
		{name: "host_key", typ: cty.String, doc: "the machine's host key, \"ssh-ed25519 AAAA...\" or \"SHA256:...\"; default known_hosts"},
		{name: "accept_new", typ: cty.Bool, doc: "note an unknown machine's key in known_hosts at first contact"},
		{name: "password_env", typ: cty.String, doc: "environment variable of the controller that holds the password"},
		{name: "passphrase_env", typ: cty.String, doc: "environment variable of the controller that holds the key files' passphrase"},
		{name: "jump", typ: strings_, doc: "machines to go through, \"user@host:port\", outermost first"},
		{name: "timeout", typ: cty.String, doc: "bound of one attempt to connect, for example \"30s\""},
	}},
	"local": {name: "connection", doc: "the machine that nodejoin runs on"},
	"sandbox": {name: "connection", doc: "a simulated machine in a folder", attrs: []attrSpec{
		{name: "path", typ: cty.String, required: true, doc: "folder of the machine, relative to the plan"},
		{name: "build", typ: cty.String, doc: "Windows build, default 10.0.20348"},
		{name: "ip", typ: cty.String, doc: "its management address, default 192.0.2.10"},
		{name: "ip6", typ: cty.String, doc: "its address of IPv6, default none"},
		{name: "capacity", typ: cty.Number, doc: "bytes that its volume holds, default as many as the real one"},
	}},
}

var rootSpec = &blockSpec{blocks: []*blockSpec{
	{name: "nodejoin", one: true, doc: "demands on nodejoin itself", attrs: []attrSpec{
		{name: "required_version", typ: cty.String, required: true, static: true, doc: "constraint on nodejoin's version"},
	}},
	{name: "variable", labels: []string{"name"}, doc: "a value given from outside", attrs: []attrSpec{
		{name: "type", static: true, doc: "type of the value, default any"},
		{name: "default", static: true, doc: "value when none is given"},
		{name: "description", typ: cty.String, static: true, doc: "what it is for"},
		{name: "sensitive", typ: cty.Bool, static: true, doc: "never shown"},
	}, blocks: []*blockSpec{
		{name: "validation", doc: "a condition on the value", attrs: []attrSpec{
			{name: "condition", typ: cty.Bool, required: true, static: true, doc: "must be true"},
			{name: "error_message", typ: cty.String, required: true, doc: "said when it is not"},
		}},
	}},
	{name: "locals", open: true, doc: "named values"},
	{name: "cluster", labels: []string{"name"}, one: true, doc: "the cluster that the nodes join", attrs: []attrSpec{
		{name: "kubernetes", typ: cty.String, required: true, doc: "version of the node components"},
		{name: "api_server", typ: cty.String, required: true, doc: "URL of the API server, as the nodes reach it"},
		{name: "kubeconfig", typ: cty.String, doc: "kubeconfig on the controller; never copied to a node"},
		{name: "sandbox", typ: cty.String, doc: "folder of a simulated cluster, instead of kubeconfig"},
		{name: "pod_cidr", typ: cty.String, doc: "network of all pods, default 10.244.0.0/16; with network \"none\" both families as kubeadm takes them, IPv4 first: \"10.244.0.0/16,fd00:10:244::/56\""},
		{name: "service_cidr", typ: cty.String, doc: "network of the services, default 10.96.0.0/12; of both families where pod_cidr is"},
		{name: "node_cidr_mask", typ: cty.Number, doc: "bits of the network that each node gets of pod_cidr, as kube-controller-manager's --node-cidr-mask-size; default 24"},
		{name: "server_version", typ: cty.String, doc: "version of the API server, where it is another than that of the nodes, to hold theirs against it"},
		{name: "dns_ip", typ: cty.String, doc: "address of the cluster's DNS service, default the tenth of service_cidr"},
		{name: "dns_domain", typ: cty.String, doc: "domain of the cluster, default cluster.local"},
		{name: "ca_hash", typ: cty.String, doc: "pin of the cluster's CA, \"sha256:...\" as kubeadm writes it"},
	}, blocks: []*blockSpec{
		{name: "join", labels: []string{"kind"}, one: true, doc: "how the kubelet gets its first credentials", kinds: joinSpecs},
	}},
	{name: "runtime", labels: []string{"kind"}, one: true, doc: "the container runtime of the nodes", kinds: runtimeSpecs},
	{name: "network", labels: []string{"kind"}, one: true, doc: "the pod network", kinds: networkSpecs},
	{name: "manifests", one: true, doc: "objects that the cluster is to have, applied by each node that joins (step kind manifest) as the same for all; they stay when nodes leave", attrs: []attrSpec{
		{name: "bootstrap", typ: cty.Bool, doc: "true: the bindings by which nodes with a bootstrap token get and renew their certificates; a cluster of kubeadm has them"},
		{name: "flannel", typ: cty.Bool, doc: "true: flannel for the cluster's Linux nodes, with the VNI, port and networks of this plan"},
		{name: "flannel_image", typ: cty.String, doc: "its image; default upstream's of the version of the network block"},
		{name: "flannel_cni_image", typ: cty.String, doc: "image of its CNI plugin; default upstream's"},
		{name: "kube_proxy", typ: cty.Bool, doc: "true: the DaemonSet kube-proxy of kube-system, where there is one, keeps to Linux nodes"},
		{name: "runtime_classes", typ: cty.Bool, doc: "true: a RuntimeClass for each Windows build of the plan, \"windows-2022\": a pod that names it lands there and tolerates the taints"},
		{name: "apply", typ: cty.Bool, doc: "false: they are not applied; nodejoin render writes them"},
		{name: "force", typ: cty.Bool, doc: "true: fields that another manager has set otherwise are taken over, which is else an error"},
	}},
	{name: "profile", labels: []string{"name"}, doc: "settings that nodes share", attrs: append([]attrSpec{
		{name: "inherits", static: true, doc: "another profile whose settings hold where this one says nothing, for example profile.base"},
	}, machineAttrs...), blocks: slices.Concat([]*blockSpec{taintSpec}, componentSpecs, settingSpecs)},
	{name: "node", labels: []string{"name"}, doc: "a machine, or with for_each or count several", attrs: append([]attrSpec{
		{name: "for_each", static: true, doc: "a map or set of strings: one node for each element"},
		{name: "count", static: true, doc: "number of nodes"},
		{name: "name", typ: cty.String, doc: "name of the Node object; default the label, each.key, or label-index"},
		{name: "profile", static: true, doc: "a profile, for example profile.windows"},
		{name: "vars", static: true, doc: "values of this machine, for steps: self.vars.NAME"},
		{name: "management_ip", typ: cty.String, doc: "the machine's address in the management network; default that of its default route"},
		{name: "management_ip6", typ: cty.String, doc: "its address of IPv6, with pods and services of both families: the kubelet reports both; default none"},
	}, machineAttrs...), blocks: slices.Concat([]*blockSpec{taintSpec,
		{name: "connection", labels: []string{"type"}, one: true, doc: "how the machine is reached", kinds: connectionSpecs}}, componentSpecs, settingSpecs)},
	{name: "rollout", one: true, doc: "how Nodes that serve pods are changed, where kubelet or runtime stops: in the order of their names, those that are out of service first", attrs: []attrSpec{
		{name: "max_unavailable", typ: cty.String, doc: "Nodes out of service at once, those that are so already included: a number, or \"25%\" of the plan's nodes, rounded up; default 1"},
		{name: "max_failures", typ: cty.Number, doc: "failed machines after which no further one is begun; default 1"},
	}},
	{name: "mirror", one: true, doc: "a folder of artifacts under their upstream file names", attrs: []attrSpec{
		{name: "path", typ: cty.String, required: true, doc: "folder on the controller, relative to the plan"},
	}},
	{name: "artifact", labels: []string{"name"}, doc: "digest and origin of something that is installed; in a plan with nodes of several operating systems or architectures one for each", attrs: []attrSpec{
		{name: "os", typ: cty.String, doc: "operating system of the nodes that it is for, default any"},
		{name: "arch", typ: cty.String, doc: "architecture of the nodes that it is for, default any"},
		{name: "version", typ: cty.String, doc: "its version, where no other block gives it"},
		{name: "url", typ: cty.String, doc: "address, default upstream's"},
		{name: "file", typ: cty.String, doc: "file on the controller, relative to the plan"},
		{name: "sha256", typ: cty.String, doc: "digest in hex"},
		{name: "sha512", typ: cty.String, doc: "digest in hex"},
	}},
	{name: "step", labels: []string{"kind", "name"}, doc: "one step of any kind", attrs: stepAttrs},
}}

// stepAttrs may stand in every step block, besides the arguments of its kind.
var stepAttrs = []attrSpec{
	{name: "for_each", typ: cty.DynamicPseudoType, static: true, doc: "a map or set of strings: one step for each element, named NAME_KEY"},
	{name: "on", static: true, doc: "nodes that get the step, node.NAME or a list; default all"},
	{name: "after", typ: strings_, doc: "names of steps that come before this one"},
	{name: "before", typ: strings_, doc: "names of steps that come after this one"},
	{name: "when", typ: cty.Bool, doc: "false leaves the step out"},
	{name: "timeout", typ: cty.String, doc: "bound of one apply with its verification"},
	{name: "retries", typ: cty.Number, doc: "further tries after a failure, at most 10"},
}

func rootBlock(name string) *blockSpec {
	for _, b := range rootSpec.blocks {
		if b.name == name {
			return b
		}
	}
	panic("plan: no block " + name)
}

func (s *blockSpec) child(name string) *blockSpec {
	for _, b := range s.blocks {
		if b.name == name {
			return b
		}
	}
	panic("plan: no block " + name + " in " + s.name)
}
