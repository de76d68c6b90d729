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

artifact "kubernetes_node" { sha256 = "aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700" }
artifact "containerd" { sha256 = "46572e83c3dd6aad4232356090f88328879a863670a71ed1f64497b4f800d54c" }
artifact "cni_plugins" {
  version = "1.9.1"
  sha256  = "dd90c70c63c1f73d543a12e020bf6ad963ddc87e7d48f9fd9d2d01c8c9db5b4d"
}
artifact "flannel_cni" { sha256 = "daf9825f21b58793bd9affe70c675dcfe8e85c323404386a2b0cd9839455d1ea" }
artifact "flanneld" { sha256 = "1e37b239632893cbf7204aa205a1da1e1ad13fe507b2ce6fddf3e4129fefae9b" }

node "win-1" {
  os = "windows"

  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
  }
}
