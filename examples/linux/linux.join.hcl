# Two Linux hosts join a cluster: containerd and runc, kubelet, flannel and kube-proxy as
# systemd units. Hosts and cluster are sandboxes here, with the quickstart's mirror; a
# real host has `connection "ssh"`, and its user is root.
#
#   nodejoin apply examples/linux

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }

network "flannel" {
  version = "0.28.9"
  backend = "vxlan"
}

mirror { path = "../quickstart/mirror" }

artifact "cni_plugins" { version = "1.9.1" }

node "lin" {
  for_each = { "lin-1" = "192.0.2.21", "lin-2" = "192.0.2.22" }
  name     = each.key
  os       = "linux"

  kubelet { config = { serverTLSBootstrap = true } } # nodejoin approves the request
  kube_proxy { config = { mode = "nftables" } }
  host { trusted_cas = [file("ca.pem")] } # of a registry of our own

  connection "sandbox" {
    path = ".sandbox/${each.key}"
    ip   = each.value
  }
}
