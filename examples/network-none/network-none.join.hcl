# A cluster that brings its pod network to the nodes itself, in pods (Calico, Antrea,
# Cilium, ...): nodejoin installs no CNI, and a node is joined once it is registered.
# Pods and services have addresses of both families (dual stack), which only such a
# network supports on Windows. Host and cluster are sandboxes.
#
#   nodejoin apply examples/network-none

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"

  pod_cidr     = "10.244.0.0/16,fd00:10:244::/56"
  service_cidr = "10.96.0.0/16,fd00:10:96::/112"
}

runtime "containerd" { version = "2.2.1" }

network "none" {
  # ready       = true     # wait until the CNI is there and the Node is Ready
  # hns_network = "Calico" # the network that the CNI creates, for kube-proxy as a service
}

mirror { path = "../quickstart/mirror" }

node "win-1" {
  os             = "windows"
  management_ip6 = "fd00:192:0:2::11" # the kubelet reports it with the IPv4 address

  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
    ip6  = "fd00:192:0:2::11"
  }
}
