package engine_test

import (
	"fmt"
	"strconv"
)

// windowsDimensions are the blocks of plans for Windows.
func windowsDimensions() map[string][]choice {
	return map[string][]choice{
		"runtime": {{}, versions("containerd 2.1.4", "containerd", "2.1.4"),
			versions("containerd 2.1.5", "containerd", "2.1.5"), engineOf("docker", "20.10.24"),
			engineOf("mcr", "23.0.1")},
		"daemon": {{}, {name: "daemon", in: map[string]string{
			"runtime docker": `config = { registry-mirrors = ["https://mirror.example"] }`,
			"runtime mcr":    `config = { registry-mirrors = ["https://mirror.example"] }`}},
			{name: "daemon pause",
				in: map[string]string{"runtime docker": `pause_image = "registry.k8s.io/pause:3.6"`,
					"runtime mcr": `pause_image = "registry.k8s.io/pause:3.6"`}}},
		"crictl": {{}, with(in("crictl", "runtime containerd", `crictl = "1.36.0"`), "crictl", "1.36.0")},
		"manager": {{}, with(in("nssm", "services", `manager = "nssm"`), "nssm", "2.24.0"),
			in("native", "services", `manager = "native"`)},
		"service settings": args("services", `priority = "above_normal"`, `log_dir = "C:\\logs\\of services"`,
			"log_size = 20\n log_age = \"24h\"",
			"restart_delay = \"30s\"\n restart_reset = \"1h\""),
		"node services": args("node", "services {\n manager = \"native\"\n priority = \"high\"\n log_size = 21\n"+
			" restart_delay = \"31s\"\n restart_reset = \"2h\"\n log_age = \"25h\"\n}",
			"services { log_dir = \"C:\\\\logs\" }"),
		"csi": {{}, with(in("csi", "profile", `csi_proxy { version = "1.1.3" }`), "csi_proxy", "1.1.3"),
			with(in("csi dirs", "profile", "csi_proxy {\n version = \"1.2.0\"\n"+
				" working_dirs = [\"D:\\\\volumes\"]\n install = true\n}"), "csi_proxy", "1.2.0")},
		"csi of the node": {{}, with(in("csi node", "node", "csi_proxy {\n version = \"1.1.3\"\n"+
			" working_dirs = [\"D:\\\\v\"]\n install = true\n}"), "csi_proxy", "1.1.3")},
		"exporter": {{}, with(in("exporter", "profile", exporterBlock(9182, "")), "windows_exporter", "0.31.3"),
			with(in("exporter2", "profile", exporterBlock(9183, `textfile_dir = "C:\\metrics"`)),
				"windows_exporter", "0.31.3"),
			with(in("exporter3", "profile", "windows_exporter {\n version = \"0.30.4\"\n"+
				" collectors = [\"cpu\"]\n remote = [\"10.0.0.5\"]\n install = true\n}"),
				"windows_exporter", "0.30.4")},
		"exporter of the node": {{}, with(in("exporter node", "node",
			"windows_exporter {\n version = \"0.31.3\"\n port = 9184\n collectors = [\"os\"]\n"+
				" textfile_dir = \"C:\\\\own\"\n remote = [\"10.0.0.6\"]\n install = true\n}"),
			"windows_exporter", "0.31.3")},
		"guard": args("profile", "guard { enabled = false }",
			"guard {\n interval = \"30s\"\n metrics_port = 9810\n textfile = \"C:\\\\metrics\\\\own.prom\"\n"+metricsTLS+"}"),
		"follow": args("profile", followBlock("https://files.example/a.tar.release", followProgram("sha256")),
			followBlock("D:\\plans\\b.tar.release", "interval = \"10m\"\n "+followProgram("sha512"))),
		"node guard": args("node", "guard { enabled = false }",
			"guard {\n interval = \"40s\"\n metrics_port = 9811\n textfile = \"C:\\\\metrics\\\\node.prom\"\n"+metricsTLS+"}"),
		"placeholder": {{}, {name: "placeholder", in: map[string]string{"network flannel": "placeholder = true",
			"host": "static_address = true"}}},
		"manage": args("firewall", `manage = false`),
		"allow": args("firewall", `allow "site" { ports = "8080" }`,
			"allow \"site\" {\n ports = \"8081\"\n protocol = \"udp\"\n remote = [\"10.0.0.7\"]\n}"),
		"node_ports": args("firewall", `node_ports = "30000-32767"`),
		"remote":     args("firewall", `remote = ["10.0.0.0/8"]`),
		"node firewall": args("node", "firewall {\n manage = true\n remote = [\"10.1.0.0/16\"]\n"+
			" node_ports = \"30000-30100\"\n allow \"own\" {\n  ports = \"8082\"\n  protocol = \"tcp\"\n"+
			"  remote = [\"10.0.0.8\"]\n }\n}"),
		"classes":  args("manifests", "runtime_classes = true"),
		"paths":    args("host", `long_paths = true`, `long_paths = false`),
		"update":   args("host", `windows_update = "off"`, `windows_update = "notify"`),
		"defender": args("host", `defender_exclusions = true`),
		"smb":      args("host", `smb_names = true`),
		"dynamic":  args("host", `dynamic_ports = "16385-65535"`),
		"reserved": args("host", `reserved_ports = ["29000-29100/tcp"]`),
		"defaults": args("host", "defaults = true\n reboot = \"auto\""),
		"boots": args("host", "page_file = 8096\n reboot = \"auto\"", "crash_dump = \"small\"\n reboot = \"auto\"",
			"tcp_keepalive = \"60s\"\n reboot = \"auto\"",
			"hostname = \"site-1\"\n reboot = \"window\"\n reboot_times = [\"00:00-23:59\"]",
			"features = [\"Containers\"]\n reboot = \"auto\""),
		"node host": args("node", `host {
  long_paths          = true
  page_file           = 9000
  crash_dump          = "none"
  windows_update      = "download"
  defender_exclusions = true
  static_address      = true
  smb_names           = true
  tcp_keepalive       = "30s"
  dynamic_ports       = "20000-65535"
  reserved_ports      = ["34200-34300/udp"]
  features            = ["Containers"]
  hostname            = "own-1"
  reboot              = "auto"
  trusted_cas         = [`+strconv.Quote(authority)+`
  ]
  defaults            = true
}`, "host {\n page_file = 9000\n reboot = \"window\"\n reboot_times = [\"00:00-23:59\"]\n}"),
		"node file": args("node", "file \"own\" {\n path = \"C:\\\\own\\\\motd\"\n content = \"z\"\n"+
			" access = \"private\"\n}"),
	}
}

// engineOf is Docker Engine or Mirantis Container Runtime.
func engineOf(name, version string) choice {
	return choice{name: name, artifacts: map[string]string{name: version}, gone: []string{"containerd"}}
}

func with(c choice, artifact, version string) choice {
	c.artifacts = map[string]string{artifact: version}
	return c
}

func exporterBlock(port int, more string) string {
	return fmt.Sprintf("windows_exporter {\n  version = \"0.31.3\"\n  port = %d\n  %s\n}", port, more)
}

// windowsSteps are the step blocks of plans for Windows.
func windowsSteps() map[string][]choice {
	return map[string][]choice{
		"ports": args("steps", `step "dynamic_ports" "dynamic" {
  protocol = "udp"
  first    = 16385
  last     = 65535
}`, `step "reserved_ports" "reserved" {
  protocol = "udp"
  first    = 30000
  last     = 32767
}`, `step "reserved_ports" "reserved2" {
  protocol = "udp"
  first    = 30500
  last     = 33100
}`),
		"absent": args("steps", `step "file" "gone" {
  path   = "C:\\theirs\\gone"
  absent = true
}`, `step "registry" "gone_registry" {
  key    = "HKLM\\SOFTWARE\\theirs"
  name   = "gone"
  absent = true
}`, `step "env" "gone_env" {
  name   = "THEIRS"
  absent = true
}`, `step "firewall_rule" "gone_firewall_rule" {
  name   = "theirs"
  absent = true
}`),
		"registry": args("steps", `step "registry" "value" {
  key    = "HKLM\\SOFTWARE\\Site\\Deep"
  name   = "A"
  type   = "dword"
  number = 1
}`, `step "registry" "value2" {
  key    = "HKLM\\SOFTWARE\\Site"
  name   = "A"
  type   = "string"
  string = "x"
}`, `step "registry" "value3" {
  key     = "HKLM\\SOFTWARE\\theirs"
  name    = "v"
  type    = "multi_string"
  strings = ["x", "y"]
}`, `step "registry" "value4" {
  key    = "HKLM\\SOFTWARE\\Site"
  name   = "A"
  type   = "binary"
  binary = "AAEC"
}`),
		"env": args("steps", "step \"env\" \"site\" {\n name = \"SITE\"\n value = \"x\"\n sensitive = true\n}",
			"step \"env\" \"other\" {\n name = \"OTHER\"\n value = \"x\"\n}"),
		"rule": args("steps", `step "firewall_rule" "rule" {
  name         = "site"
  display_name = "Site"
  description  = "x"
  direction    = "in"
  action       = "allow"
  protocol     = "tcp"
  ports        = "9999"
  program      = "C:\\site\\svc.exe"
  remote       = "10.0.0.9"
  listener     = "site"
  enabled      = true
}`),
		"service": args("steps", `step "file" "exe" {
  path    = "C:\\site\\svc.exe"
  content = "stand-in"
}
step "service" "site_service" {
  name    = "site"
  command = ["C:\\site\\svc.exe"]
  makes   = ["C:\\site\\data"]
  after   = ["exe"]
}`, `step "file" "exe" {
  path    = "C:\\site\\svc.exe"
  content = "stand-in"
}
step "service" "site_service" {
  name                  = "site"
  display_name          = "Site"
  description           = "x"
  command               = ["C:\\site\\svc.exe", "--all"]
  start                 = "delayed"
  depends_on            = ["kubelet"]
  environment           = ["A=b", "TOKEN=x"]
  sensitive_environment = ["TOKEN"]
  recovery              = [{ action = "restart", delay = "5s" }]
  recovery_reset        = 60
  state                 = "running"
  watch                 = ["C:\\site\\svc.exe"]
  restart_on            = ["a"]
  log                   = "C:\\site\\svc.log"
  hns_networks          = ["site"]
  parameters = [
    { name = "Application", type = "expand_string", string = "C:\\site\\svc.exe" },
    { name = "AppRotateBytes", type = "dword", number = 1048576 },
    { name = "AppEnvironmentExtra", type = "multi_string", strings = ["A=b"] },
  ]
  after = ["exe", "kubelet"]
}`),
		"hns": args("steps", `step "hns_network" "held" {
  name    = "held"
  type    = "L2Bridge"
  subnet  = "192.168.254.0/30"
  gateway = "192.168.254.1"
}
step "hns_network_ready" "held_ready" {
  name    = "held"
  type    = "L2Bridge"
  subnet  = "192.168.254.0/30"
  service = "kubelet"
  log     = "C:\\var\\log\\kubelet.log"
  after   = ["held"]
}`, `step "hns_network" "held" {
  name    = "held2"
  type    = "Overlay"
  subnet  = "192.168.253.0/30"
  vni     = 9998
  address = "192.0.2.11"
  service = "site"
}
step "hns_network_ready" "held_ready" {
  name  = "held2"
  vni   = 9998
  after = ["held"]
}`),
		"programs": {{}, in("archive", "steps", `step "archive" "tools" {
  file    = "./mirror/tools.tar.gz"
  sha256  = "`+toolsArchive.sha256+`"
  to      = "C:\\tools"
  strip   = 1
  include = ["bin/*.exe"]
}`), in("archive2", "steps", `step "archive" "tools" {
  file     = "./mirror/tools.tar.gz"
  sha512   = "`+toolsArchive.sha512+`"
  to       = "C:\\tools"
  services = ["site"]
  versions = { "tool.exe" = "v1.0.0" }
}`), in("binary", "steps", `step "binary" "tool" {
  file   = "./mirror/tools.tar.gz"
  sha256 = "`+toolsArchive.sha256+`"
  path   = "C:\\tools\\tools.tar.gz"
  access = "private"
}`), in("binary2", "steps", `step "binary" "tool" {
  file     = "./mirror/tools.tar.gz"
  sha512   = "`+toolsArchive.sha512+`"
  path     = "C:\\tools\\other.tar.gz"
  services = ["site"]
}`)},
		"conf": args("steps", `step "cni_conf_first" "own_conf" {
  path  = "C:\\etc\\cni\\net.d\\05-own.conflist"
}`),
		"vip": args("steps", `step "source_vip" "own_vip" {
  dir       = "C:\\var\\lib\\cni\\networks"
  network   = "own"
  subnet    = self.pod_cidr
  container = "tool"
  interface = "tool"
}`),
		"account": args("steps", `step "service_account" "account" {
  namespace    = "kube-system"
  name         = "node-tool"
  cluster_role = "node-tool"
  rules        = [{ api_groups = [""], resources = ["nodes"], verbs = ["get"] }]
}
step "kubeconfig" "tool_conf" {
  path         = "C:\\tools\\kubelet.conf"
  server       = "https://10.0.0.10:6443"
  ca           = `+strconv.Quote(authority)+`
  user         = "tool"
  token        = "t"
  unless       = "C:\\tools\\none"
  renew_before = "1h"
  services     = ["site"]
  backup       = ["C:\\tools\\old.conf"]
}
step "bootstrap_token" "no_token" {
  absent = true
  after  = ["joined"]
}`),
		"gates": args("steps", gates(`C:\\var\\log\\kubelet.log`)+`step "preflight" "own_conditions" {
  os        = "windows"
  arch      = "amd64"
  min_build = "10.0.17763"
  path      = "C:\\"
  min_free  = "1MiB"
  ssh_port  = 22
  switch    = true
  features  = ["Containers"]
  required  = ["docker"]
  only      = ["operating-system", "architecture", "windows-build", "disk-space"]
  waive     = ["memory"]
}
step "reboot" "own_boot" {
  policy = "auto"
}`),
		"feature": args("steps", "step \"feature\" \"telnet\" {\n name = \"Microsoft-Hyper-V\"\n}\n"+
			"step \"reboot\" \"telnet_boot\" {\n policy = \"auto\"\n features = [\"Microsoft-Hyper-V\"]\n"+
			" after = [\"telnet\"]\n}"),
	}
}

// metricsTLS has a guard serve its metrics over TLS.
var metricsTLS = " metrics_certificate = " + strconv.Quote(clientCertificate) + "\n metrics_key = sensitive(" +
	strconv.Quote(clientKey) + ")\n"
