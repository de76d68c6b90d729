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

artifact "cni_plugins" { version = "1.9.1" }

node "win-1" {
  os = "windows"

  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
  }
}
