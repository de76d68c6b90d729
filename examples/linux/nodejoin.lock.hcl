# Written by 'nodejoin lock'. Keep it beside the plan, in version control; do not edit it.

format = 1

artifact "cni_plugins" "linux/amd64" {
  version  = "1.9.1"
  address  = "mirror:cni-plugins-linux-amd64-v1.9.1.tgz"
  size     = 221
  sha256   = "ffd12a3414b3f30ba869ca5972a097c354671888de2635dd917896fcf71a8e59"
  verified = "none"
}

artifact "containerd" "linux/amd64" {
  version  = "2.2.1"
  address  = "mirror:containerd-2.2.1-linux-amd64.tar.gz"
  size     = 203
  sha256   = "10d2a716eb8886e874e224d572738adaf84b82c9319b1dc6b4aa8a7156eb875c"
  verified = "none"
}

artifact "flannel_cni" "linux/amd64" {
  address  = "mirror:flannel-amd64"
  size     = 57
  sha256   = "4948bd509b9fe6bbccc4af8671473e87d6d732d4983e2acccd7d8b02255ecc75"
  verified = "none"
}

artifact "flanneld" "linux/amd64" {
  version  = "0.28.9"
  address  = "mirror:flanneld-amd64"
  size     = 58
  sha256   = "90a094c185c1b33f7d9230b07a5eb5c11b14afd490cfe464cb0de6d84d7ec291"
  verified = "none"
}

artifact "kubernetes_node" "linux/amd64" {
  version  = "1.36.3"
  address  = "mirror:kubernetes-node-linux-amd64.tar.gz"
  size     = 196
  sha256   = "ecdae05f07ec1fe16faf27426c0295bc76dc76e9f3072d0bc0a1aa2e3a78542c"
  verified = "none"
}

artifact "runc" "linux/amd64" {
  address  = "mirror:runc.amd64"
  size     = 54
  sha256   = "383d9b9ff0d2e50efa42b93233647ca1c17c7457ee02e218c19fba9dcb6c6069"
  verified = "none"
}
