# The node gets a kubeconfig that you provide, instead of a token: for a cluster whose
# API server accepts no bootstrap tokens. One for each node, NAME.conf in a folder:
#
#   kubeadm kubeconfig user --client-name system:node:win-1 --org system:nodes > win-1.conf
#
# For the sandbox cluster of this plan, create them with:
#
#   go run ./examples/kubeconfig/sandbox
#   nodejoin apply examples/kubeconfig

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"

  join "kubeconfig" { path = ".sandbox/kubeconfigs" }
}

runtime "containerd" { version = "2.2.1" }

network "flannel" { version = "0.28.9" }

mirror { path = "../quickstart/mirror" }

artifact "cni_plugins" { version = "1.9.1" }

node "win-1" {
  os = "windows"

  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
  }
}
