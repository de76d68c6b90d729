# An old cluster: Kubernetes before 1.24 with Mirantis Container Runtime, on Windows
# Server 2019. Only customers of Mirantis get the archive, so it comes from a mirror or a
# file, not from upstream. Host and cluster are sandboxes.
#
#   nodejoin apply examples/mcr

cluster "demo" {
  kubernetes = "1.23.17"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "mcr" {
  version = "23.0.1"
}

network "flannel" { version = "0.28.9" }

mirror { path = "../quickstart/mirror" }

artifact "kubernetes_node" { sha256 = "aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700" }
artifact "mcr" { sha256 = "d5b62a6d9c6786c9e411ec94c68be12b13d87960da382e775c92a4ae6c03d23b" }
artifact "cni_plugins" {
  version = "1.9.1"
  sha256  = "dd90c70c63c1f73d543a12e020bf6ad963ddc87e7d48f9fd9d2d01c8c9db5b4d"
}
artifact "flannel_cni" { sha256 = "daf9825f21b58793bd9affe70c675dcfe8e85c323404386a2b0cd9839455d1ea" }
artifact "flanneld" { sha256 = "1e37b239632893cbf7204aa205a1da1e1ad13fe507b2ce6fddf3e4129fefae9b" }

node "win-1" {
  os = "windows"
  host { static_address = true } # HNS of Windows Server 2019 drops it otherwise

  connection "sandbox" {
    path  = ".sandbox/win-1"
    build = "10.0.17763"
    ip    = "192.0.2.11"
  }
}
