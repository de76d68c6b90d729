package engine_test

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// dimensions are what plans differ in. The first choice of each is that of a plan without it.
func dimensions(osName string) map[string][]choice {
	own := map[string]string{"windows": `data_dir = "C:\\data\\nodejoin"`,
		"linux": `data_dir = "/srv/nodejoin"`}[osName]
	adapter := fmt.Sprintf("interface = %q", map[string]string{"windows": "Ethernet", "linux": "eth0"}[osName])
	out := map[string][]choice{
		"adapter":    args("profile", adapter),
		"age":        {{}, {name: "old"}},
		"engine":     {{}, {name: "installed"}},
		"kubernetes": {{}, versions("kubernetes 1.35.4", "kubernetes_node", "1.35.4")},
		"pod_cidr":   {{}, in("pod_cidr", "cluster", `pod_cidr = "10.200.0.0/16"`)},
		"server":     args("cluster", `server_version = "1.36.9"`, `node_cidr_mask = 24`),
		"services": args("cluster", `service_cidr = "10.100.0.0/16"`,
			"service_cidr = \"10.100.0.0/16\"\ndns_ip = \"10.100.0.53\""),
		"dns_domain":  args("cluster", `dns_domain = "k8s.example"`),
		"pause_image": args("runtime containerd", `pause_image = "images.example/pause:3.10"`),
		"artifact":    {{}, {name: "artifact file"}},
		"network": {{}, in("vni", "network flannel", "backend = \"vxlan\"\n vni = 4097"),
			dual(), in("host-gw", "network flannel", `backend = "host-gw"`),
			none("none", "ready = false"), none("none ready", "ready = true")},
		"flannel": {{}, versions("flannel 0.27.4", "flanneld", "0.27.4", "flannel_cni", "0.27.4")},
		"plugins": {{}, versions("plugins 1.8.0", "cni_plugins", "1.8.0"), versions("plugins 1.7.1",
			"cni_plugins", "1.7.1")},
		"proxy": args("profile", "proxy { http = \"http://proxy.example:3128\" }",
			"proxy {\n http = \"http://proxy.example:3128\"\n https = \"http://other.example:3128\"\n"+
				" no_proxy = [\".example\"]\n}"),
		"v":        args("kubelet", `extra_args = ["--v=2"]`),
		"config":   args("kubelet", `config = { imageGCHighThresholdPercent = 80, serverTLSBootstrap = true }`),
		"proxy_v":  args("kube_proxy", `extra_args = ["--v=2"]`),
		"labels":   {{}, in("labels", "profile", `labels = { "example.com/pool" = "x" }`)},
		"taint":    args("profile", "taint {\n key = \"site\"\n value = \"x\"\n effect = \"NoSchedule\"\n}"),
		"max_pods": args("profile", `max_pods = 60`),
		"policy":   args("profile", `on_failure = "keep"`, `waive = ["memory"]`, `arch = "amd64"`),
		"node": args("node", "labels = { \"example.com/own\" = \"y\" }\n vars = { a = \"b\" }",
			"taint {\n key = \"own\"\n value = \"v\"\n effect = \"PreferNoSchedule\"\n}\nmax_pods = 50"),
		"own": args("node", `management_ip = "192.0.2.11"`, adapter,
			fmt.Sprintf("os = %q\n arch = \"amd64\"\n on_failure = \"keep\"\n waive = [\"memory\"]", osName)),
		"settings": args("node", "kubelet {\n config = { maxOpenFiles = 900000 }\n"+
			" extra_args = [\"--v=3\"]\n}", "kube_proxy {\n"+
			" config = { metricsBindAddress = \"127.0.0.1:10249\" }\n extra_args = [\"--v=3\"]\n}",
			"proxy {\n http = \"http://node.example:3128\"\n https = \"http://node.example:3128\"\n"+
				" no_proxy = [\".corp\"]\n}"),
		"capacity": args("connection", `capacity = 107374182400`),
		"data_dir": {{}, in("data_dir", "profile", own), in("data_dir of the node", "node", own)},
		"nodes":    args("node", "count = 1", `for_each = toset(["one"])`),
		"inherits": {{}, {name: "inherits", in: map[string]string{"profile": "inherits = profile.base",
			"top": "profile \"base\" {\n labels = { \"example.com/base\" = \"x\" }\n}"}}},
		"rollout": args("top", "rollout {\n max_unavailable = 2\n max_failures = 2\n}",
			"rollout {\n max_unavailable = 2\n waves = [1, \"100%\"]\n pause = \"1s\"\n}"),
		"language": args("top", "nodejoin { required_version = \">= 0.1.0-0\" }\nvariable \"port\" {\n"+
			" type = number\n default = 80\n description = \"x\"\n sensitive = false\n validation {\n"+
			" condition = var.port > 0\n error_message = \"A port.\"\n }\n}\nlocals { a = var.port }"),
		"bootstrap": args("manifests", "bootstrap = true", "bootstrap = true\n force = true",
			"bootstrap = true\n apply = false"),
		"kube_proxies": args("manifests", "kube_proxy = true"),
		"objects":      {{}, objects("a"), objects("a", "b"), objects("b", "c")},
		"join":         {{}, in("join ttl", "cluster", "join \"bootstrap_token\" { ttl = \"30m\" }")},
		"labelled": args("steps", `step "node_labels" "rack" {
  labels = { "example.com/rack" = "7" }
  after  = ["registered"]
}`),
		"tainted": args("steps", `step "node_taints" "rack_taint" {
  taints = [{ key = "rack", value = "b", effect = "PreferNoSchedule" }]
  after  = ["registered"]
}`),
		"cluster": args("steps", `step "service_account" "tool" {
  namespace    = "kube-system"
  name         = "tool"
  cluster_role = "tool"
  rules        = [{ api_groups = [""], resources = ["nodes"], verbs = ["get"] }]
  own_node     = true
}
step "node_seen" "seen_again" {}
step "node_ready" "ready_again" { after = ["registered"] }
step "node_registered" "registered_again" {
  pod_cidr = true
  after    = ["registered"]
}
step "serving_certificate" "serving_again" {
  addresses = [self.management_ip]
  names     = ["win-1.example.com"]
  after     = ["registered"]
}
step "node_name_free" "free_again" { address = self.management_ip }`),
		"manifest": args("steps", `step "manifest" "forced" {
  content = yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "forced" }, data = { a = "x" } })
  force   = true
  timeout = "1m"
  retries = 1
}`, `step "manifest" "existing" {
  content = yamlencode({
    apiVersion = "apps/v1", kind = "DaemonSet", metadata = { name = "agent", namespace = "tools" }
    spec = { template = { spec = { nodeSelector = { "kubernetes.io/os" = "linux" } } } }
  })
  existing = true
}`),
		"for_each": args("steps", `step "manifest" "each" {
  for_each = toset(["e1", "e2"])
  content  = yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = each.key } })
  on       = node.n
  when     = true
  before   = ["joined"]
}`),
		"none": args("steps", `step "manifest" "never" {
  content = yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "never" } })
  when    = false
}`),
	}
	maps.Copy(out, machineDimensions(osName))
	out["kubeadm"] = append([]choice{{}}, in("join kubeadm", "cluster",
		"join \"kubeadm\" {\n ttl = \"20m\"\n ignore_preflight_errors = [\"CRI\"]\n}"))
	if osName == "linux" {
		maps.Copy(out, linuxDimensions())
		out["network"] = append(out["network"], in("port", "network flannel", "port = 4789"))
	} else {
		maps.Copy(out, windowsDimensions())
		maps.Copy(out, windowsSteps())
		out["flannels"] = args("manifests", "flannel = true",
			"flannel = true\n flannel_image = \"registry.example/flannel:1\"\n"+
				" flannel_cni_image = \"registry.example/cni:1\"")
		out["join"] = append(out["join"], in("join kubeconfig", "cluster",
			`join "kubeconfig" { path = ".sandbox/kubeconfigs" }`))
		out["network"] = append(out["network"],
			in("port", "network flannel", "port = 4789"),
			sdn("sdnoverlay", "backend = \"vxlan\"\n delegate = \"sdnoverlay\""),
			sdn("sdnbridge", "backend = \"host-gw\"\n delegate = \"sdnbridge\""),
			none("none hns", `hns_network = "Calico"`))
	}
	return out
}

// in is a choice that adds a text to one block.
func in(name, block, text string) choice {
	return choice{name: name, in: map[string]string{block: text}}
}

// args are the choices of arguments of a block, or none of them.
func args(block string, texts ...string) []choice {
	out := []choice{{}}
	for _, text := range texts {
		out = append(out, in(strings.Join(strings.Fields(text), " "), block, text))
	}
	return out
}

func versions(name string, artifacts ...string) choice {
	c := choice{name: name, artifacts: map[string]string{}}
	for i := 0; i < len(artifacts); i += 2 {
		c.artifacts[artifacts[i]] = artifacts[i+1]
	}
	return c
}

func none(name, text string) choice {
	c := in(name, "network none", text)
	c.gone = []string{"flanneld", "flannel_cni", "cni_plugins"}
	return c
}

// dual has addresses of both families.
func dual() choice {
	c := none("none dual", "ready = true")
	c.in["cluster"] = "pod_cidr = \"10.244.0.0/16,fd00:10:244::/56\"\n" +
		" service_cidr = \"10.96.0.0/16,fd00:10:96::/112\""
	c.in["node"] = `management_ip6 = "fd00:192:0:2::11"`
	c.in["connection"] = `ip6 = "fd00:192:0:2::11"`
	return c
}

func sdn(name, text string) choice {
	c := in(name, "network flannel", text)
	c.artifacts = map[string]string{"sdn_cni": "0.3.1"}
	return c
}

// objects are ConfigMaps of the cluster.
func objects(names ...string) choice {
	text := ""
	for _, n := range names {
		text += configMap(n, "x", "")
	}
	return in("objects "+strings.Join(names, ""), "steps", text)
}

func configMap(name, value, more string) string {
	return fmt.Sprintf(`step "manifest" "object_%[1]s" {
  content = yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = %[1]q }, data = { a = %[2]q } })
  %[3]s
}
`, name, value, more)
}

// machineDimensions are blocks and steps of the machine that both systems have.
func machineDimensions(osName string) map[string][]choice {
	path := func(parts ...string) string { // as a string of the language
		if osName == "windows" {
			return strconv.Quote(`C:\` + strings.Join(parts, `\`))
		}
		return strconv.Quote("/opt/" + strings.Join(parts, "/"))
	}
	site := path("site", "motd")
	return map[string][]choice{
		"registries": {{}, in("registry", "runtime containerd",
			`registry "docker.io" { mirrors = ["https://one.example"] }`),
			in("registries", "runtime containerd", "registry \"docker.io\" { mirrors = [\"https://one.example\"] }\n"+
				"registry \"quay.io\" {\n mirrors = [\"https://two.example\"]\n ca = "+strconv.Quote(authority)+"\n}")},
		"logins":            logins(),
		"providers":         providers(),
		"images":            pulled(),
		"containerd config": args("runtime containerd", `config = { debug = { level = "info" } }`),
		"cas":               args("host", "trusted_cas = ["+strconv.Quote(authority)+"\n]"),
		"authority": args("steps",
			"step \"trusted_ca\" \"own\" {\n certificate = "+strconv.Quote(authority)+"\n}"),
		"directory": args("steps",
			"step \"directory\" \"store\" {\n path = "+path("store", "a")+"\n access = \"private\"\n}",
			"step \"directory\" \"store\" { path = "+path("store")+" }"),
		"file": {{}, in("motd", "steps", "step \"file\" \"motd\" {\n path = "+site+"\n content = \"x\"\n}"),
			in("motd2", "steps", "step \"file\" \"motd2\" {\n path = "+path("site", "deep", "motd")+
				"\n content = \"y\"\n access = \"private\"\n sensitive = true\n}"),
			in("file block", "profile", "file \"site\" {\n path = "+site+"\n content = \"z\"\n access = \"program\"\n}")},
	}
}

// gates are steps that wait for programs which run; log is the kubelet's, as the language writes it.
func gates(log string) string {
	return `step "http_ready" "own_http" {
  url     = "http://127.0.0.1:10248/healthz"
  status  = 200
  service = "kubelet"
  log     = "` + log + `"
  after   = ["registered"]
}
step "service_running" "own_runs" {
  name  = "kubelet"
  log   = "` + log + `"
  after = ["registered"]
}
`
}

// authority is one that machines are to trust.
const authority = `-----BEGIN CERTIFICATE-----
MIIBvDCCAWGgAwIBAgIUOjGnAOhW0tUF7ENLrQ42P0f6YKAwCgYIKoZIzj0EAwIw
KjEQMA4GA1UECgwHRXhhbXBsZTEWMBQGA1UEAwwNQXV0aG9yaXR5IG9uZTAgFw0y
NjExMjIwOTM1MDZaGA8yMTI2MTAyOTA5MzUwNlowKjEQMA4GA1UECgwHRXhhbXBs
ZTEWMBQGA1UEAwwNQXV0aG9yaXR5IG9uZTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABM0dr3JTd99iKvRKZjf+NZAC93j+Kg0yX0lUVHk9chXCCv+oZNDng1XxnivH
cg4NOOVjvoiJ+I2o2zm8x+ZpwUajYzBhMB0GA1UdDgQWBBQ0meK3Zkh9Qj668l4p
+jctPZKL5jAfBgNVHSMEGDAWgBQ0meK3Zkh9Qj668l4p+jctPZKL5jAPBgNVHRMB
Af8EBTADAQH/MA4GA1UdDwEB/wQEAwICBDAKBggqhkjOPQQDAgNJADBGAiEAmPag
qchXutayDlSSsf5KHeFeBC1+ElALk33bWu/QQ0UCIQDs7WT6KywPr7MxcPBfMjRa
Npbf0MQY+ujEzu7JMyp5cw==
-----END CERTIFICATE-----
`

func linuxDimensions() map[string][]choice {
	return map[string][]choice{
		"containerd": {{}, versions("containerd 2.1.4", "containerd", "2.1.4"), versions("containerd 2.1.5",
			"containerd", "2.1.5")},
		"theirs": args("steps", `step "file" "gone" {
  path   = "/etc/theirs/gone"
  absent = true
}`),
		"sysctl": args("steps", `step "sysctl" "maps" {
  name  = "vm.max_map_count"
  value = "262144"
}`, `step "sysctl" "forward" {
  name  = "vm.overcommit_memory"
  value = "1"
}`),
		"module": args("steps", `step "kernel_module" "balance" { name = "ip_vs" }`),
		"env": args("steps", `step "env" "site" {
  name  = "SITE"
  value = "x"
  sensitive = true
}`, `step "env" "own_env" {
  name  = "SITE"
  value = "x"
  file  = "/opt/site/x.env"
}`, `step "env" "gone_env" {
  name   = "THEIRS"
  absent = true
}`),
		"mode":     args("kube_proxy", `config = { mode = "nftables" }`, `enabled = false`),
		"no proxy": args("node", "kube_proxy { enabled = false }"),
		"hostname": {{}, in("hostname", "host", `hostname = "site-1"`),
			in("host_name", "steps", `step "host_name" "own_name" { name = "step-1" }`)},
		"gates": args("steps", gates("/var/log/kubelet.log")+`step "preflight" "own_conditions" {
  os        = "linux"
  arch      = "amd64"
  no_swap   = true
  cgroup_v2 = true
  programs  = ["iptables"]
}`),
		"follow": args("profile", followBlock("https://files.example/a.tar.release", "windows = [\"01:00-05:00\"]\n "+
			followProgram("sha512")),
			followBlock("oci://files.example/plans:a", "jitter = \"1m\"\n interval = \"10m\"\n evict = true\n"+
				" values = { a = sensitive(\"b\") }\n "+followSigstore("ops")+followProgram("sha256"))),
		"follow of the node": args("node", followBlock("/srv/b.tar.release", "windows = [\"02:00-05:00\"]\n"+
			" jitter = \"2m\"\n interval = \"20m\"\n evict = false\n values = { a = \"c\" }\n "+followSigstore("dev")+
			followProgram("sha256")),
			followBlock("/srv/b.tar.release", followProgram("sha512"))),
		"service": args("steps", `step "file" "exe" {
  path    = "/opt/site/svc"
  content = "stand-in"
  access  = "program"
}
step "service" "site_service" {
  name               = "site"
  command            = ["/opt/site/svc"]
  interfaces         = ["tool0"]
  chains             = ["TOOL-"]
  network_namespaces = ["tool-"]
  filter_tables      = ["tool"]
  routes             = ["10.99.0.0/16"]
  after              = ["exe"]
}`),
	}
}

// followSigstore has releases count that an identity or a key has signed with cosign.
func followSigstore(who string) string {
	return fmt.Sprintf("sigstore {\n identities = [{ issuer = \"https://a.example\", identity = \"%s@example.com\" }]\n"+
		" keys = [\"-----BEGIN PUBLIC KEY-----\\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJNY0wnYEDaSzSCnBUiYC6Tzcp9U5\\n"+
		"28y02tZIAJVPdzXWNUBsQB3w20tVdmeuvohay5oFS7eIBce+Y23bgLPsIw==\\n-----END PUBLIC KEY-----\\n\"]\n}\n", who)
}

// followProgram names the program of a follow block: a file, and its digest.
func followProgram(algorithm string) string {
	return fmt.Sprintf("file = %q\n %s = %q", "./mirror/"+ownProgram.file, algorithm,
		map[string]string{"sha256": ownProgram.sha256, "sha512": ownProgram.sha512}[algorithm])
}

// ownProgram stands in for nodejoin.
var ownProgram = func() standIn {
	b := []byte("stand-in for nodejoin")
	return standIn{file: "nodejoin", bytes: b, sha256: fmt.Sprintf("%x", sha256.Sum256(b)),
		sha512: fmt.Sprintf("%x", sha512.Sum512(b))}
}()

// followKey is a public key of which nobody has the private one.
const followKey = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

// followBlock has a node follow a plan.
func followBlock(source, more string) string {
	return fmt.Sprintf("follow {\n plan = \"site\"\n source = %q\n signers = \"ops ssh-ed25519 %s\"\n %s\n}", source,
		followKey, more)
}
