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

# Programs differ by operating system; the lock beside this file has the digests of both.
artifact "cni_plugins" { version = "1.9.1" }

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
