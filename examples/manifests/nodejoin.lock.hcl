# Written by 'nodejoin lock'. Keep it beside the plan, in version control; do not edit it.

format = 1

artifact "cni_plugins" "windows/amd64" {
  version  = "1.9.1"
  address  = "mirror:cni-plugins-windows-amd64-v1.9.1.tgz"
  size     = 200
  sha256   = "dd90c70c63c1f73d543a12e020bf6ad963ddc87e7d48f9fd9d2d01c8c9db5b4d"
  verified = "none"
}

artifact "containerd" "windows/amd64" {
  version  = "2.2.1"
  address  = "mirror:containerd-2.2.1-windows-amd64.tar.gz"
  size     = 210
  sha256   = "46572e83c3dd6aad4232356090f88328879a863670a71ed1f64497b4f800d54c"
  verified = "none"
}

artifact "flannel_cni" "windows/amd64" {
  address  = "mirror:flannel-amd64.exe"
  size     = 61
  sha256   = "daf9825f21b58793bd9affe70c675dcfe8e85c323404386a2b0cd9839455d1ea"
  verified = "none"
}

artifact "flanneld" "windows/amd64" {
  version  = "0.28.9"
  address  = "mirror:flanneld.exe"
  size     = 56
  sha256   = "1e37b239632893cbf7204aa205a1da1e1ad13fe507b2ce6fddf3e4129fefae9b"
  verified = "none"
}

artifact "kubernetes_node" "windows/amd64" {
  version  = "1.36.3"
  address  = "mirror:kubernetes-node-windows-amd64.tar.gz"
  size     = 252
  sha256   = "aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700"
  verified = "none"
}
