# Images come from internal mirrors with an internal CA, and crictl is installed to
# inspect them. Host and cluster are sandboxes.
#
#   nodejoin apply examples/registries

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" {
  version     = "2.2.1"
  pause_image = "images.example/pause:3.10"
  crictl      = "1.36.0"

  # containerd tries the mirrors in order, and the registry itself last.
  registry "registry.k8s.io" {
    mirrors = ["https://images.example/v2/k8s"]
    ca      = file("house-ca.pem") # each registry needs its own, though the mirror has one below
  }
  registry "images.example" { ca = file("house-ca.pem") }
}

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
artifact "crictl" { sha256 = "870ef0747e75e23669d0cb71ee13c49ae2b5b43c2795e3cb7e45dcc76c5d6675" }

node "win-1" {
  os = "windows"

  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
  }
}
