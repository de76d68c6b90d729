# Windows hosts join a real cluster over SSH. Copy example.joinvars, put your values
# in, and:
#
#   nodejoin lock  --var-file my.joinvars examples/windows-ssh    note what the artifacts are
#   nodejoin plan  --var-file my.joinvars examples/windows-ssh
#   nodejoin apply --var-file my.joinvars examples/windows-ssh
#
# A host needs Windows Server 2019 or later with the Containers feature, OpenSSH
# Server, and your public key in administrators_authorized_keys.

nodejoin { required_version = ">= 0.1.0-0" }

variable "api_server" {
  description = "URL of the API server, as the hosts reach it"
  type        = string
}

variable "kubeconfig" {
  description = "kubeconfig on this machine; it is never copied to a host"
  type        = string
}

variable "ca_hash" {
  description = "pin of the cluster's CA, as kubeadm token create --print-join-command shows it; null: the kubeconfig is trusted"
  type        = string
  default     = null
}

variable "hosts" {
  description = "name of the Node -> address or ssh_config name of the machine"
  type        = map(string)
}

variable "mirror" {
  description = "folder with the artifacts under their upstream file names"
  type        = string
}

variable "sha256" {
  description = "name of an artifact -> digest that it must have; nodejoin.lock.hcl has those of all"
  type        = map(string)
  default     = {}
}

# How to log in. Empty lists leave it to ~/.ssh/config, ssh-agent and known_hosts.
variable "user" {
  type    = string
  default = "Administrator"
}
variable "port" {
  type    = number
  default = 22
}
variable "identity" {
  type    = list(string)
  default = []
}
variable "known_hosts" {
  type    = list(string)
  default = []
}

cluster "this" {
  kubernetes   = "1.36.3"
  api_server   = var.api_server
  kubeconfig   = var.kubeconfig
  ca_hash      = var.ca_hash
  pod_cidr     = "10.244.0.0/16"
  service_cidr = "10.96.0.0/12"
  dns_ip       = "10.96.0.10"
  join "bootstrap_token" { ttl = "15m" }
}

runtime "containerd" { version = "2.4.2" }

# The Linux nodes of the cluster must have the same backend, VNI and port.
network "flannel" {
  version = "0.28.4"
  backend = "vxlan"
  vni     = 4096
  port    = 4789
}

mirror { path = var.mirror }

artifact "kubernetes_node" { sha256 = try(var.sha256["kubernetes_node"], null) }
artifact "containerd" { sha256 = try(var.sha256["containerd"], null) }
artifact "cni_plugins" {
  version = "1.9.1"
  sha256  = try(var.sha256["cni_plugins"], null)
}
artifact "flannel_cni" { sha256 = try(var.sha256["flannel_cni"], null) }
artifact "flanneld" { sha256 = try(var.sha256["flanneld"], null) }

profile "windows" {
  os     = "windows"
  labels = { "example.com/pool" = "windows" }
  taint {
    key    = "os"
    value  = "windows"
    effect = "NoSchedule"
  }
}

node "win" {
  for_each = var.hosts
  name     = each.key
  profile  = profile.windows

  connection "ssh" {
    host        = each.value
    port        = var.port
    user        = var.user
    identity    = var.identity
    known_hosts = var.known_hosts
  }
}
