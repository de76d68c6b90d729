# Written by 'nodejoin lock'. Keep it beside the plan, in version control; do not edit it.

format = 1

artifact "containerd" "windows/amd64" {
  version  = "2.2.1"
  address  = "mirror:containerd-2.2.1-windows-amd64.tar.gz"
  size     = 210
  sha256   = "46572e83c3dd6aad4232356090f88328879a863670a71ed1f64497b4f800d54c"
  verified = "none"
}

artifact "kubernetes_node" "windows/amd64" {
  version  = "1.36.3"
  address  = "mirror:kubernetes-node-windows-amd64.tar.gz"
  size     = 252
  sha256   = "aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700"
  verified = "none"
}
