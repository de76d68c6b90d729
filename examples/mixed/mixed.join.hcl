# A Windows and a Linux host join one cluster. Both are sandboxes, as in ../quickstart,
# whose mirror this plan uses; real hosts have `connection "ssh"` and the cluster a
# kubeconfig.

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }

# One network for both. On Windows the VNI must be at least 4096, and the port 4789.
network "flannel" {
  version = "0.28.9"
  backend = "vxlan"
  vni     = 4096
  port    = 4789
}

mirror { path = "../quickstart/mirror" }

# Programs differ by operating system, so each has its digest.
artifact "kubernetes_node" {
  os     = "windows"
  sha256 = "aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700"
}
artifact "kubernetes_node" {
  os     = "linux"
  sha256 = "56f977a66db39e9fa0ef5c03106ba8be6b6b4c26c46a63ebffce46c4e9616445"
}
artifact "containerd" {
  os     = "windows"
  sha256 = "46572e83c3dd6aad4232356090f88328879a863670a71ed1f64497b4f800d54c"
}
artifact "containerd" {
  os     = "linux"
  sha256 = "10d2a716eb8886e874e224d572738adaf84b82c9319b1dc6b4aa8a7156eb875c"
}
artifact "cni_plugins" {
  os      = "windows"
  version = "1.9.1"
  sha256  = "dd90c70c63c1f73d543a12e020bf6ad963ddc87e7d48f9fd9d2d01c8c9db5b4d"
}
artifact "cni_plugins" {
  os      = "linux"
  version = "1.9.1"
  sha256  = "ffd12a3414b3f30ba869ca5972a097c354671888de2635dd917896fcf71a8e59"
}
artifact "flannel_cni" {
  os     = "windows"
  sha256 = "daf9825f21b58793bd9affe70c675dcfe8e85c323404386a2b0cd9839455d1ea"
}
artifact "flannel_cni" {
  os     = "linux"
  sha256 = "4948bd509b9fe6bbccc4af8671473e87d6d732d4983e2acccd7d8b02255ecc75"
}
artifact "flanneld" {
  os     = "windows"
  sha256 = "1e37b239632893cbf7204aa205a1da1e1ad13fe507b2ce6fddf3e4129fefae9b"
}
artifact "flanneld" {
  os     = "linux"
  sha256 = "90a094c185c1b33f7d9230b07a5eb5c11b14afd490cfe464cb0de6d84d7ec291"
}
artifact "runc" {
  os     = "linux" # Windows has none
  sha256 = "383d9b9ff0d2e50efa42b93233647ca1c17c7457ee02e218c19fba9dcb6c6069"
}

profile "windows" {
  os = "windows"
  taint {
    key    = "os"
    value  = "windows"
    effect = "NoSchedule"
  }
}

profile "linux" {
  os = "linux"
  kubelet { config = { serverTLSBootstrap = true } } # nodejoin approves the request
  kube_proxy { config = { mode = "nftables" } }
}

node "win-1" {
  profile = profile.windows
  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
  }
}

node "lin-1" {
  profile = profile.linux
  connection "sandbox" {
    path = ".sandbox/lin-1"
    ip   = "192.0.2.12"
  }
}

# A kind of one system names its nodes.
step "sysctl" "max_map_count" {
  on    = node.lin-1
  name  = "vm.max_map_count"
  value = "262144"
}
