package block

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
)

var taintSpec = &eval.Spec{Name: "taint", Doc: "a taint of the Node", Attrs: []eval.Attr{
	{Name: "key", Typ: cty.String, Required: true, Doc: "key of the taint"},
	{Name: "value", Typ: cty.String, Empty: true, Doc: "its value"},
	{Name: "effect", Typ: cty.String, Required: true, Doc: "NoSchedule, PreferNoSchedule or NoExecute"},
}}

// machineAttrs may be in a profile and in a node; those of the node win.
var machineAttrs = []eval.Attr{
	{Name: "os", Typ: cty.String, Doc: "\"windows\" or \"linux\""},
	{Name: "arch", Typ: cty.String, Doc: "\"amd64\" (default) or \"arm64\""},
	{Name: "build", Typ: cty.String, Doc: "Windows build that the machine has at least, for example 10.0.20348; " +
		"versions are checked against it, and the machine's when it joins"},
	{Name: "data_dir", Typ: cty.String, Doc: "nodejoin's own folder on the machine; default by OS"},
	{Name: "interface", Typ: cty.String, Doc: "network adapter whose IPv4 address is the machine's in the management " +
		"network, for example \"Ethernet 2\"; default that of the default route"},
	{Name: "mirror", Typ: cty.String, Doc: "address of a mirror near the machine, as url of the mirror block: the " +
		"machine fetches its artifacts there instead, and the lock's digests count"},
	{Name: "max_pods", Typ: cty.Number, Doc: "most pods on the node; default of the kubelet"},
	{Name: "labels", Typ: eval.StrMap, Doc: "labels of the Node"},
	{Name: "on_failure", Typ: cty.String, Doc: "what happens to a machine on which a step fails: \"keep\" leaves it " +
		"to the next apply, \"rollback\" restores the state before the run; default: an upgrade of a Ready Node is " +
		"rolled back, all else kept"},
	{Name: "waive", Typ: eval.Strings, Doc: "ids of findings of the preflight that do not count (listed under " +
		"Findings); those of the profile and of the node together"},
}

// becomeSpec is how a user who is not root gets root's rights.
var becomeSpec = &eval.Spec{Name: "become", One: true,
	Doc: "run the agent with root's rights, on Linux, where the user that logs in is not root",
	Attrs: []eval.Attr{
		{Name: "method", Typ: cty.String, Doc: "\"sudo\" or \"doas\"; default \"sudo\""},
		{Name: "password_env", Typ: cty.String, Doc: "environment variable of the controller that holds the password; " +
			"sudo gets it when it asks. Default: it does not ask"},
	}}

// connectionSpecs are the ways to a machine.
var connectionSpecs = map[string]*eval.Spec{
	"ssh": {Name: "connection", Doc: "over SSH", Attrs: []eval.Attr{
		{Name: "host", Typ: cty.String, Required: true, Doc: "address or name, or a Host of ssh_config"},
		{Name: "port", Typ: cty.Number, Doc: "default 22 or what ssh_config says"},
		{Name: "user", Typ: cty.String, Doc: "default what ssh_config says"},
		{Name: "identity", Typ: eval.Strings,
			Doc: "private key files on the controller; default ssh_config, the agent and the usual names"},
		{Name: "known_hosts", Typ: eval.Strings, Doc: "files of host keys; default ssh_config or ~/.ssh/known_hosts"},
		{Name: "host_key", Typ: cty.String,
			Doc: "the machine's host key, \"ssh-ed25519 AAAA...\" or \"SHA256:...\"; default known_hosts"},
		{Name: "accept_new", Typ: cty.Bool, Doc: "add an unknown machine's key to known_hosts at first contact"},
		{Name: "password_env", Typ: cty.String, Doc: "environment variable of the controller that holds the password"},
		{Name: "passphrase_env", Typ: cty.String,
			Doc: "environment variable of the controller that holds the key files' passphrase"},
		{Name: "jump", Typ: eval.Strings, Doc: "machines to go through, \"user@host:port\", outermost first"},
		{Name: "jump_host_keys", Typ: eval.StrMap, Doc: "host keys of jump hosts, by their text in jump; " +
			"default known_hosts"},
		{Name: "timeout", Typ: cty.String, Doc: "bound of one attempt to connect, for example \"30s\""},
	}, Blocks: []*eval.Spec{becomeSpec}},
	"winrm": {Name: "connection",
		Doc: "over WinRM: HTTPS with NTLM or Kerberos, for Windows machines without an SSH server",
		Attrs: []eval.Attr{
			{Name: "host", Typ: cty.String, Required: true, Doc: "address or name, which its certificate must be for"},
			{Name: "port", Typ: cty.Number, Doc: "port of the HTTPS listener, default 5986; 5985 is WinRM over HTTP, with " +
				"messages that NTLM or Kerberos encrypts"},
			{Name: "user", Typ: cty.String, Required: true,
				Doc: "an administrator: \"user\", \"DOMAIN\\user\" or \"user@domain\"; with Kerberos \"user@REALM\", or " +
					"\"user\" of the default realm"},
			{Name: "auth", Typ: cty.String, Doc: "\"ntlm\" (default) or \"kerberos\", with the realms of the controller's " +
				"krb5.conf; the service is HTTP/ and host"},
			{Name: "password_env", Typ: cty.String, Doc: "environment variable of the controller that holds the password; " +
				"with Kerberos it may be left out, then the tickets of kinit are used"},
			{Name: "certificate_sha256", Typ: cty.String, Doc: "SHA-256 of the machine's certificate, 64 hex digits, " +
				"with or without colons; no other certificate is accepted then"},
			{Name: "ca_file", Typ: cty.String, Doc: "file with the CA certificates that sign the machine's, in PEM form; " +
				"default those of the controller's system"},
			{Name: "jump", Typ: eval.Strings, Doc: "machines to go through over SSH, \"user@host:port\", outermost first"},
			{Name: "jump_host_keys", Typ: eval.StrMap, Doc: "host keys of jump hosts, by their text in jump; " +
				"default known_hosts"},
			{Name: "setup_ssh", Typ: cty.Bool, Doc: "also set OpenSSH's server up, for runs with connection \"ssh\": " +
				"installed, started with the machine, running, open in the firewall. Apply logs in to it at its end"},
			{Name: "ssh_public_key", Typ: cty.String, Doc: "with setup_ssh: public key that logs administrators in there, " +
				"\"ssh-ed25519 AAAA...\""},
			{Name: "identity", Typ: eval.Strings, Doc: "private key files on the controller, for the jump hosts and the " +
				"server of setup_ssh; default ssh_config, the agent and the usual names"},
			{Name: "passphrase_env", Typ: cty.String,
				Doc: "environment variable of the controller that holds the key files' passphrase"},
			{Name: "known_hosts", Typ: eval.Strings, Doc: "files of host keys of jump hosts; default ssh_config or " +
				"~/.ssh/known_hosts"},
			{Name: "accept_new", Typ: cty.Bool, Doc: "add an unknown jump host's key to known_hosts at first contact"},
			{Name: "timeout", Typ: cty.String, Doc: "bound of one attempt to connect, for example \"30s\""},
		}},
	"local": {Name: "connection", Doc: "the machine that nodejoin runs on"},
	"sandbox": {Name: "connection", Doc: "a simulated machine in a folder", Attrs: []eval.Attr{
		{Name: "path", Typ: cty.String, Required: true, Doc: "folder of the machine, relative to the plan"},
		{Name: "build", Typ: cty.String, Doc: "Windows build, default 10.0.20348"},
		{Name: "ip", Typ: cty.String, Doc: "its management address, default 192.0.2.10"},
		{Name: "ip6", Typ: cty.String, Doc: "its address of IPv6, default none"},
		{Name: "capacity", Typ: cty.Number, Doc: "bytes that its volume holds, default as many as the real one"},
	}},
}

// artifactSignatureSpec is how an artifact is signed.
var artifactSignatureSpec = &eval.Spec{Name: "signature", One: true, Doc: "how the publisher of the artifact " +
	"signs it, where it does not come from upstream: 'nodejoin lock' verifies that", Attrs: []eval.Attr{
	{Name: "bundle", Typ: cty.String, Required: true, Doc: "address of the Sigstore bundle, as 'cosign sign-blob " +
		"--bundle' writes it"},
	{Name: "identity", Typ: cty.String, Required: true, Doc: "who signs: the email address or URI in the certificate"},
	{Name: "issuer", Typ: cty.String, Required: true, Doc: "who vouches for the signer, for example " +
		"https://token.actions.githubusercontent.com"},
}}

// RootSpec is the whole language: the blocks of a plan file.
var RootSpec = &eval.Spec{Blocks: []*eval.Spec{
	{Name: "nodejoin", One: true, Doc: "demands on nodejoin itself", Attrs: []eval.Attr{
		{Name: "required_version", Typ: cty.String, Required: true, Static: true, Doc: "constraint on nodejoin's version"},
	}},
	{Name: "variable", Labels: []string{"name"}, Doc: "a value given from outside", Attrs: []eval.Attr{
		{Name: "type", Static: true, Doc: "type of the value, default any"},
		{Name: "default", Static: true, Doc: "value when none is given"},
		{Name: "description", Typ: cty.String, Static: true, Doc: "what it is for"},
		{Name: "sensitive", Typ: cty.Bool, Static: true, Doc: "never shown"},
	}, Blocks: []*eval.Spec{
		{Name: "validation", Doc: "a condition on the value", Attrs: []eval.Attr{
			{Name: "condition", Typ: cty.Bool, Required: true, Static: true, Doc: "must be true"},
			{Name: "error_message", Typ: cty.String, Required: true, Doc: "said when it is not"},
		}},
	}},
	{Name: "locals", Open: true, Doc: "named values"},
	{Name: "data", Labels: []string{"kind", "name"}, Doc: "a value that is read on the controller. It is shown in the " +
		"plan with a digest, and a saved plan is refused when it has changed", Kinds: dataSpecs},
	{Name: "module", Labels: []string{"name"}, Doc: "a part of a plan in a folder of its own, which several " +
		"plans can share. The folder has *.join.hcl files with the blocks variable, locals, output, check, profile, " +
		"node, step and module. The outputs are module.NAME.OUTPUT, with for_each module.NAME[KEY].OUTPUT. Nodes take a " +
		"profile of it with profile = module.NAME.profile.PROFILE, and profiles with inherits. The module's nodes are " +
		"nodes of the plan, and the plan's steps are for them, too; the module's steps are for its own nodes " +
		"only", Attrs: []eval.Attr{
		{Name: "source", Required: true, Static: true, Doc: "the folder, from that of this file: \"./modules/windows\"; " +
			"or an archive, \"https://HOST/PATH.tar.gz\", as Git servers have one for each tag; or an OCI artifact with an " +
			"archive, \"oci://REGISTRY/REPOSITORY:TAG\" or \"oci://REGISTRY/REPOSITORY@sha256:DIGEST\""},
		{Name: "sha256", Static: true, Doc: "digest of the archive; without one, `nodejoin lock` notes it, " +
			"and that of a tag"},
		{Name: "path", Static: true, Doc: "the module's folder in its archive, for example \"modules-1.2.0/windows\"; " +
			"default its top"},
		{Name: "inputs", Static: true, Doc: "an object with values for the module's variables"},
		{Name: "for_each", Static: true, Doc: "a map or a set of strings: the module is evaluated for each element, with " +
			"each.key and each.value in inputs"},
	}},
	{Name: "output", Labels: []string{"name"}, Doc: "a value of the plan for others: `nodejoin output` prints it, and " +
		"the plan that has this one as a module reads it. Besides variables and locals it can name nodes: node.LABEL " +
		"has name, os, arch, host, management_ip, labels and vars; with for_each it is an object of such, with count a " +
		"list. An output of a module that names nodes can itself be named in steps, outputs and checks", Attrs: []eval.Attr{
		{Name: "value", Required: true, Static: true, Doc: "the value"},
		{Name: "description", Typ: cty.String, Static: true, Doc: "what it is"},
		{Name: "sensitive", Typ: cty.Bool, Static: true, Doc: "true: it is never shown, only passed on"},
	}},
	{Name: "check", Labels: []string{"name"}, Doc: "a condition on the plan, judged before any machine is asked. It " +
		"can name what an output can", Attrs: []eval.Attr{
		{Name: "condition", Typ: cty.Bool, Required: true, Static: true, Doc: "must be true"},
		{Name: "error_message", Typ: cty.String, Required: true, Static: true, Doc: "said when it is not"},
	}},
	{Name: "cluster", Labels: []string{"name"}, One: true, Doc: "the cluster that the nodes join", Attrs: []eval.Attr{
		{Name: "kubernetes", Typ: cty.String, Required: true, Doc: "version of the node components"},
		{Name: "api_server", Typ: cty.String, Required: true, Doc: "URL of the API server, as the nodes reach it"},
		{Name: "kubeconfig", Typ: cty.String, Doc: "kubeconfig on the controller; never copied to a node"},
		{Name: "sandbox", Typ: cty.String, Doc: "folder of a simulated cluster, instead of kubeconfig"},
		{Name: "pod_cidr", Typ: cty.String, Doc: "network of all pods, default 10.244.0.0/16; with network \"none\" both " +
			"families as kubeadm takes them, IPv4 first: \"10.244.0.0/16,fd00:10:244::/56\""},
		{Name: "service_cidr", Typ: cty.String,
			Doc: "network of the services, default 10.96.0.0/12; of both families where pod_cidr is"},
		{Name: "node_cidr_mask", Typ: cty.Number, Doc: "bits of the network that each node gets of pod_cidr, as " +
			"kube-controller-manager's --node-cidr-mask-size; default 24"},
		{Name: "server_version", Typ: cty.String,
			Doc: "version of the API server, if it differs from that of the nodes, which are checked against it"},
		{Name: "dns_ip", Typ: cty.String, Doc: "address of the cluster's DNS service, default the tenth of service_cidr"},
		{Name: "dns_domain", Typ: cty.String, Doc: "domain of the cluster, default cluster.local"},
		{Name: "ca_hash", Typ: cty.String, Doc: "pin of the cluster's CA, \"sha256:...\" as kubeadm writes it"},
	}, Blocks: []*eval.Spec{
		{Name: "join", Labels: []string{"kind"}, One: true, Doc: "how the kubelet gets its first credentials",
			Kinds: joinSpecs},
	}},
	{Name: "runtime", Labels: []string{"kind"}, One: true, Doc: "the container runtime of the nodes",
		Kinds: runtimeSpecs},
	{Name: "network", Labels: []string{"kind"}, One: true, Doc: "the pod network", Kinds: networkSpecs},
	{Name: "manifests", One: true, Doc: "objects that the cluster is to have, applied by each node that joins (step " +
		"kind manifest) as the same for all; they stay when nodes leave", Attrs: []eval.Attr{
		{Name: "bootstrap", Typ: cty.Bool, Doc: "true: the bindings by which nodes with a bootstrap token get and renew " +
			"their certificates; a cluster of kubeadm has them"},
		{Name: "flannel", Typ: cty.Bool,
			Doc: "true: flannel for the cluster's Linux nodes, with the VNI, port and networks of this plan"},
		{Name: "flannel_image", Typ: cty.String, Doc: "its image; default upstream's of the version of the network block"},
		{Name: "flannel_cni_image", Typ: cty.String, Doc: "image of its CNI plugin; default upstream's"},
		{Name: "kube_proxy", Typ: cty.Bool,
			Doc: "true: the DaemonSet kube-proxy of kube-system, where there is one, keeps to Linux nodes"},
		{Name: "runtime_classes", Typ: cty.Bool, Doc: "true: a RuntimeClass for each Windows build of the plan, " +
			"\"windows-2022\": a pod that names it lands there and tolerates the taints"},
		{Name: "apply", Typ: cty.Bool, Doc: "false: they are not applied; nodejoin render writes them"},
		{Name: "force", Typ: cty.Bool,
			Doc: "true: take over fields that another manager has set differently, and objects of another ApplySet; " +
				"otherwise that is an error"},
		{Name: "keep", Typ: cty.Bool, Doc: "the objects stay in the cluster when the plan no longer has them"},
	}},
	{Name: "profile", Labels: []string{"name"}, Doc: "settings that nodes share", Attrs: append([]eval.Attr{
		{Name: "inherits", Static: true,
			Doc: "another profile whose settings hold where this one says nothing, for example profile.base or " +
				"module.NAME.profile.base"},
	}, machineAttrs...), Blocks: slices.Concat([]*eval.Spec{taintSpec}, componentSpecs, settingSpecs)},
	{Name: "node", Labels: []string{"name"}, Doc: "a machine, or with for_each or count several",
		Attrs: append([]eval.Attr{
			{Name: "for_each", Static: true, Doc: "a map or set of strings: one node for each element"},
			{Name: "count", Static: true, Doc: "number of nodes"},
			{Name: "name", Typ: cty.String, Doc: "name of the Node object; default the label, each.key, or label-index"},
			{Name: "profile", Static: true, Doc: "a profile, for example profile.windows or module.NAME.profile.windows"},
			{Name: "vars", Static: true, Doc: "values of this machine, for steps: self.vars.NAME"},
			{Name: "management_ip", Typ: cty.String,
				Doc: "the machine's address in the management network, in place of interface; default that of its default " +
					"route"},
			{Name: "management_ip6", Typ: cty.String,
				Doc: "its address of IPv6, with pods and services of both families: the kubelet reports both; default none"},
		}, machineAttrs...), Blocks: slices.Concat([]*eval.Spec{taintSpec,
			{Name: "connection", Labels: []string{"type"}, One: true, Doc: "how the machine is reached",
				Kinds: connectionSpecs}}, componentSpecs, settingSpecs)},
	{Name: "rollout", One: true, Doc: "how Nodes that serve pods are changed, where kubelet or runtime stops: in the " +
		"order of their names, those that are out of service first", Attrs: []eval.Attr{
		{Name: "max_unavailable", Typ: cty.String, Doc: "Nodes out of service at once, including those that already " +
			"are: a number, or \"25%\" of the plan's nodes, rounded up; default 1"},
		{Name: "max_failures", Typ: cty.Number, Doc: "failed machines after which no further machine is started; default 1"},
		{Name: "waves", Typ: eval.Strings, Doc: "how many Nodes each wave has: numbers, or shares such as \"10%\" of the " +
			"plan's nodes, rounded up. The last one repeats. A wave begins when the one before has ended and its Nodes are " +
			"in service; default one wave for all"},
		{Name: "pause", Typ: cty.String, Doc: "time between two waves, such as \"5m\", at most \"24h\"; default none"},
	}},
	{Name: "moved", Doc: "a machine whose Node has another name now. An apply drains the Node with the former name, " +
		"joins the machine under the new one, and then deletes the former Node. The block has no effect once that is " +
		"done", Attrs: []eval.Attr{
		{Name: "from", Typ: cty.String, Required: true, Doc: "the former name; the plan no longer has a node of that name"},
		{Name: "to", Typ: cty.String, Required: true, Doc: "the name of a node of the plan, or the from of another " +
			"moved block"},
	}},
	{Name: "mirror", One: true, Doc: "where artifacts come from instead of upstream, under their upstream file " +
		"names. It is not trusted: the digests of the lock count", Attrs: []eval.Attr{
		{Name: "path", Typ: cty.String, Doc: "folder on the controller, relative to the plan; nodejoin sends the " +
			"files"},
		{Name: "url", Typ: cty.String, Doc: "address of a folder on a web server, from which the hosts fetch the " +
			"files; or a repository of a registry, oci://registry.example/nodejoin. If it wants a login, a login " +
			"block has it"},
	}},
	{Name: "login", Labels: []string{"server"}, Doc: "login for a server that artifacts are fetched from and that " +
		"wants one: a mirror, or the server in the url of an artifact. The label is its host, or host:port, and no other " +
		"server gets the password or token. Hosts get it from the controller when they are changed, and do not keep it",
		Attrs: []eval.Attr{
			{Name: "username", Typ: cty.String, Doc: "user"},
			{Name: "password_env", Typ: cty.String,
				Doc: "environment variable of the controller that holds the user's password"},
			{Name: "token_file", Typ: cty.String, Doc: "file on the controller, relative to the plan, with a token " +
				"that the server takes as it is (Authorization: Bearer), instead of username and password"},
		}},
	{Name: "verify", One: true, Doc: "how artifacts must be verified, as their lock says. Steps give their digests " +
		"themselves", Attrs: []eval.Attr{
		{Name: "require", Typ: cty.String, Required: true, Doc: "the least that counts: \"signature\" (its publisher " +
			"signed it), \"checksum\" (its publisher's checksum file names the digest), \"digest\" (the plan gives " +
			"it) or \"none\""},
		{Name: "artifacts", Typ: eval.StrMap, Doc: "what counts for single artifacts instead, by name: " +
			"{ flanneld = \"none\" }"},
		{Name: "trust_root", Typ: cty.String, Doc: "certificate authorities and logs that signatures are verified " +
			"with, as Sigstore publishes them: file(\"trusted_root.json\"); default those of Sigstore's public " +
			"instance when this nodejoin was built"},
	}},
	{Name: "artifact", Labels: []string{"name"}, Doc: "version, origin and digest of something that is installed; " +
		"the lock, which 'nodejoin lock' writes, has the digests that the plan does not give. With a digest or an origin " +
		"it is for one operating system and architecture. Without a version of its own it may be " +
		"left out", Attrs: []eval.Attr{
		{Name: "os", Typ: cty.String, Doc: "operating system of the nodes that it is for, default any"},
		{Name: "arch", Typ: cty.String, Doc: "architecture of the nodes that it is for, default any"},
		{Name: "version", Typ: cty.String, Doc: "its version, where no other block gives it"},
		{Name: "url", Typ: cty.String, Doc: "address, default upstream's; or one in a registry, " +
			"oci://registry.example/files/tool:1.0, an artifact of one file as oras writes it"},
		{Name: "file", Typ: cty.String, Doc: "file on the controller, relative to the plan"},
		{Name: "sha256", Typ: cty.String, Doc: "digest in hex, default that of the lock, with which it must agree"},
		{Name: "sha512", Typ: cty.String, Doc: "the same"},
		{Name: "checksum", Typ: cty.String, Doc: "address of a checksum file (as sha256sum writes it) against " +
			"which 'nodejoin lock' checks the artifact, default upstream's, where it comes from upstream and the plan gives " +
			"no digest"},
	}, Blocks: []*eval.Spec{artifactSignatureSpec}},
	{Name: "step", Labels: []string{"kind", "name"}, Doc: "one step of any kind", Attrs: StepAttrs},
}}

// Root returns the spec of a block of a plan file.
func Root(name string) *eval.Spec {
	for _, b := range RootSpec.Blocks {
		if b.Name == name {
			return b
		}
	}
	panic("plan: no block " + name)
}
