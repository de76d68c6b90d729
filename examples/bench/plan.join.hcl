# The 30-step plan of the benchmark: generic Linux hosts over SSH, no cluster.
# It has the shape of a Windows node join (directories, configs, archives,
# service definitions, environment, conditions) below /srv, so that any
# configuration tool can be measured with the same work.
#
# run.sh beside this file turns a list of hosts into the variables below.

nodejoin { required_version = ">= 0.1.0-0" }

variable "hosts" {
  description = "name -> address, port, node_ip, pod_cidr"
  type        = map(object({ address = string, port = number, node_ip = string, pod_cidr = string }))
}

variable "identity" { type = string }
variable "known_hosts" { type = string }

variable "repo" {
  description = "folder that holds the archives: its URL, from which the hosts fetch them, or its path on the controller"
  type        = string
}

variable "archives" {
  description = "name -> sha256 of NAME.tar.gz"
  type        = map(string)
}

variable "settings" {
  description = "what the templates fill in besides the node's own values"
  type        = map(string)
}

locals {
  root = "/srv"
  files = {
    "kubelet-config.yaml"    = "k/kubelet-config.yaml"
    "bootstrap-kubeconfig"   = "etc/kubernetes/bootstrap-kubelet.conf"
    "kubeconfig"             = "etc/kubernetes/kubelet.conf"
    "ca.crt"                 = "etc/kubernetes/pki/ca.crt"
    "containerd-config.toml" = "k/containerd-config.toml"
    "crictl.yaml"            = "k/crictl.yaml"
    "kube-proxy-config.yaml" = "k/kube-proxy-config.yaml"
    "cni.conflist"           = "etc/cni/net.d/10-flannel.conflist"
    "flannel-net-conf.json"  = "k/flannel-net-conf.json"
    "start-kubelet.ps1"      = "k/start-kubelet.ps1"
    "start-kube-proxy.ps1"   = "k/start-kube-proxy.ps1"
    "hosts.toml"             = "k/hosts.toml"
  }
}

profile "linux" {
  os       = "linux"
  data_dir = "/srv/.nodejoin"
}

node "host" {
  for_each = var.hosts
  name     = each.key
  profile  = profile.linux
  vars     = { node_name = each.key, node_ip = each.value.node_ip, pod_cidr = each.value.pod_cidr }
  connection "ssh" {
    host        = each.value.address
    port        = each.value.port
    user        = "root"
    identity    = [var.identity]
    known_hosts = [var.known_hosts]
  }
}

step "preflight" "linux" {
  os   = "linux"
  only = ["operating-system"]
}

step "preflight" "space" {
  path     = local.root
  min_free = "1MiB"
  only     = ["disk-space"]
}

step "directory" "dir" {
  for_each = toset(["k", "var/log/kubelet", "etc/kubernetes/pki", "etc/kubernetes/manifests", "opt/cni/bin", "etc/cni/net.d"])
  path     = "${local.root}/${each.key}"
}

step "file" "conf" {
  for_each = local.files
  path     = "${local.root}/${each.value}"
  content  = templatefile("files/${each.key}", merge(var.settings, self.vars))
}

step "archive" "bin" {
  for_each = var.archives
  url      = startswith(var.repo, "http") ? "${var.repo}/${each.key}.tar.gz" : null
  file     = startswith(var.repo, "http") ? null : "${var.repo}/${each.key}.tar.gz"
  sha256   = each.value
  to       = "${local.root}/k"
}

step "file" "unit" {
  for_each = toset(["containerd", "kubelet", "kube-proxy", "flanneld"])
  path     = "${local.root}/k/${each.key}.service"
  content  = templatefile("files/service", { node_name = self.name, service = each.key, root = local.root })
}

step "file" "registered" {
  for_each = toset(["containerd", "kubelet", "kube-proxy", "flanneld"])
  path     = "${local.root}/run/svc/${each.key}"
}

step "env" "variable" {
  for_each = {
    CONTAINER_RUNTIME_ENDPOINT = "npipe:////./pipe/containerd-containerd"
    KUBECONFIG                 = "C:/etc/kubernetes/kubelet.conf"
  }
  name  = each.key
  value = each.value
  file  = "${local.root}/etc/environment"
}
