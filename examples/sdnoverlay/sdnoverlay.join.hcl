# The quickstart's overlay with another CNI plugin: sdnoverlay of Microsoft's
# windows-container-networking instead of win-overlay. Host and cluster are sandboxes.
#
#   nodejoin apply examples/sdnoverlay

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }

network "flannel" {
  version  = "0.28.9"
  backend  = "vxlan"
  delegate = "sdnoverlay"
}

mirror { path = "../quickstart/mirror" }

artifact "cni_plugins" { version = "1.9.1" }
artifact "sdn_cni" { version = "0.3.1" }

node "win-1" {
  os = "windows"

  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
  }
}
