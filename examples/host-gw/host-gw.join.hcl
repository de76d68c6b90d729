# The quickstart with another pod network: flannel's backend "host-gw" routes from
# node to node instead of wrapping packets, so all nodes must be on one link (one
# switch, no router between them). On Windows that is an L2Bridge network, cbr0.
# Hosts and cluster are sandboxes, and the artifacts those of the quickstart.
#
#   nodejoin apply examples/host-gw
#
# If the cluster brings its CNI to the nodes in pods (Calico, Antrea, ...), write
# `network "none" {}` instead; see ../network-none.

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }

network "flannel" {
  version  = "0.28.9"
  backend  = "host-gw"    # the same on all nodes of the cluster, Linux too
  delegate = "win-bridge" # or "sdnbridge", with artifact "sdn_cni"
}

mirror { path = "../quickstart/mirror" }

artifact "cni_plugins" { version = "1.9.1" }

node "win" {
  for_each = { "win-1" = "192.0.2.11", "win-2" = "192.0.2.12" }
  name     = each.key
  os       = "windows"

  connection "sandbox" {
    path = ".sandbox/${each.key}"
    ip   = each.value
  }
}
