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

artifact "cni_plugins" { version = "1.9.1" }

node "win-1" {
  os = "windows"
  host { static_address = true } # HNS of Windows Server 2019 drops it otherwise

  connection "sandbox" {
    path  = ".sandbox/win-1"
    build = "10.0.17763"
    ip    = "192.0.2.11"
  }
}
