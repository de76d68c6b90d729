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

artifact "kubernetes_node" { sha256 = "56f977a66db39e9fa0ef5c03106ba8be6b6b4c26c46a63ebffce46c4e9616445" }
artifact "containerd" { sha256 = "10d2a716eb8886e874e224d572738adaf84b82c9319b1dc6b4aa8a7156eb875c" }
artifact "cni_plugins" {
  version = "1.9.1"
  sha256  = "ffd12a3414b3f30ba869ca5972a097c354671888de2635dd917896fcf71a8e59"
}
artifact "flannel_cni" { sha256 = "4948bd509b9fe6bbccc4af8671473e87d6d732d4983e2acccd7d8b02255ecc75" }
artifact "flanneld" { sha256 = "90a094c185c1b33f7d9230b07a5eb5c11b14afd490cfe464cb0de6d84d7ec291" }
artifact "runc" { sha256 = "383d9b9ff0d2e50efa42b93233647ca1c17c7457ee02e218c19fba9dcb6c6069" }

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
