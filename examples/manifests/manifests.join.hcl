# Objects that a cluster needs for its Windows nodes. They are applied with server-side
# apply, so nodejoin owns only the fields that it writes. They stay when the nodes
# leave. Hosts and cluster are sandboxes.
#
#   nodejoin render examples/manifests --out rendered      the objects, in rendered/_manifests
#   nodejoin apply examples/manifests
#
# To check pods for these nodes:
#
#   nodejoin check --plan examples/manifests examples/manifests/web.yaml

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }

network "flannel" { version = "0.28.9" }

manifests {
  bootstrap       = true # lets nodes with a bootstrap token get certificates, as in clusters of kubeadm
  flannel         = true # on the Linux nodes, with the VNI 4096 and the port 4789 that Windows needs
  kube_proxy      = true # keeps the DaemonSet of the Linux nodes off the Windows nodes
  runtime_classes = true # windows-2022 and windows-2025: runtimeClassName in a pod says where it runs
}

# Any other object: a name space for the pods of Windows.
step "manifest" "namespace" {
  content = yamlencode({
    apiVersion = "v1"
    kind       = "Namespace"
    metadata   = { name = "windows", labels = { "pod-security.kubernetes.io/enforce" = "baseline" } }
  })
}

mirror { path = "../quickstart/mirror" }

artifact "cni_plugins" { version = "1.9.1" }

profile "windows" {
  os = "windows"
  taint {
    key    = "os"
    value  = "windows"
    effect = "NoSchedule"
  }
}

node "win" {
  for_each = { "win-2022" = "10.0.20348", "win-2025" = "10.0.26100" }
  name     = each.key
  profile  = profile.windows
  connection "sandbox" {
    path  = ".sandbox/${each.key}"
    build = each.value
    ip    = each.key == "win-2022" ? "192.0.2.11" : "192.0.2.12"
  }
}
