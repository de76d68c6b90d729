# The quickstart with kubeadm: `kubeadm join` runs on each node, with a token that is
# created for it and revoked afterwards. The cluster was created by kubeadm: it has the
# ConfigMaps cluster-info, kubeadm-config and kubelet-config. The plan's settings for
# the kubelet are in a separate file next to kubeadm's config.yaml, so they can change
# later without a new join. Hosts and cluster are sandboxes here.
#
#   nodejoin apply examples/kubeadm

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"

  join "kubeadm" {
    ignore_preflight_errors = [] # names as kubeadm prints them, [ERROR NAME]
  }
}

runtime "containerd" { version = "2.2.1" }

network "flannel" {
  version = "0.28.9"
  backend = "vxlan"
  vni     = 4096
  port    = 4789
}

mirror { path = "../quickstart/mirror" }

artifact "cni_plugins" { version = "1.9.1" }

node "win" {
  for_each = { "win-1" = "192.0.2.11" }
  name     = each.key
  os       = "windows"

  taint {
    key    = "os"
    value  = "windows"
    effect = "NoSchedule"
  }

  connection "sandbox" {
    path = ".sandbox/${each.key}"
    ip   = each.value
  }
}

node "lin-1" {
  os = "linux"

  kube_proxy { enabled = false } # it runs in a pod of the DaemonSet that kubeadm made

  connection "sandbox" {
    path = ".sandbox/lin-1"
    ip   = "192.0.2.12"
  }
}
