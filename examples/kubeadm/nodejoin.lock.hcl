# Written by 'nodejoin lock'. Keep it beside the plan, in version control; do not edit it.

format = 1

artifact "cni_plugins" "linux/amd64" {
  version  = "1.9.1"
  address  = "mirror:cni-plugins-linux-amd64-v1.9.1.tgz"
  size     = 221
  sha256   = "ffd12a3414b3f30ba869ca5972a097c354671888de2635dd917896fcf71a8e59"
  verified = "none"
}

artifact "cni_plugins" "windows/amd64" {
  version  = "1.9.1"
  address  = "mirror:cni-plugins-windows-amd64-v1.9.1.tgz"
  size     = 200
  sha256   = "dd90c70c63c1f73d543a12e020bf6ad963ddc87e7d48f9fd9d2d01c8c9db5b4d"
  verified = "none"
}

artifact "containerd" "linux/amd64" {
  version  = "2.2.1"
  address  = "mirror:containerd-2.2.1-linux-amd64.tar.gz"
  size     = 203
  sha256   = "10d2a716eb8886e874e224d572738adaf84b82c9319b1dc6b4aa8a7156eb875c"
  verified = "none"
}

artifact "containerd" "windows/amd64" {
  version  = "2.2.1"
  address  = "mirror:containerd-2.2.1-windows-amd64.tar.gz"
  size     = 210
  sha256   = "46572e83c3dd6aad4232356090f88328879a863670a71ed1f64497b4f800d54c"
  verified = "none"
}

artifact "flannel_cni" "linux/amd64" {
  address  = "mirror:flannel-amd64"
  size     = 57
  sha256   = "4948bd509b9fe6bbccc4af8671473e87d6d732d4983e2acccd7d8b02255ecc75"
  verified = "none"
}

artifact "flannel_cni" "windows/amd64" {
  address  = "mirror:flannel-amd64.exe"
  size     = 61
  sha256   = "daf9825f21b58793bd9affe70c675dcfe8e85c323404386a2b0cd9839455d1ea"
  verified = "none"
}

artifact "flanneld" "linux/amd64" {
  version  = "0.28.9"
  address  = "mirror:flanneld-amd64"
  size     = 58
  sha256   = "90a094c185c1b33f7d9230b07a5eb5c11b14afd490cfe464cb0de6d84d7ec291"
  verified = "none"
}

artifact "flanneld" "windows/amd64" {
  version  = "0.28.9"
  address  = "mirror:flanneld.exe"
  size     = 56
  sha256   = "1e37b239632893cbf7204aa205a1da1e1ad13fe507b2ce6fddf3e4129fefae9b"
  verified = "none"
}

artifact "kubernetes_node" "linux/amd64" {
  version  = "1.36.3"
  address  = "mirror:kubernetes-node-linux-amd64.tar.gz"
  size     = 196
  sha256   = "ecdae05f07ec1fe16faf27426c0295bc76dc76e9f3072d0bc0a1aa2e3a78542c"
  verified = "none"
}

artifact "kubernetes_node" "windows/amd64" {
  version  = "1.36.3"
  address  = "mirror:kubernetes-node-windows-amd64.tar.gz"
  size     = 252
  sha256   = "aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700"
  verified = "none"
}

artifact "runc" "linux/amd64" {
  address  = "mirror:runc.amd64"
  size     = 54
  sha256   = "383d9b9ff0d2e50efa42b93233647ca1c17c7457ee02e218c19fba9dcb6c6069"
  verified = "none"
}
