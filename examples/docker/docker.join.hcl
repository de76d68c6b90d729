# An old cluster: Kubernetes before 1.24 with Docker Engine, on Windows Server 2019.
# If the machine already has Docker, write `installed = true` instead of a version:
# nodejoin then only requires it. Host and cluster are sandboxes.
#
#   nodejoin apply examples/docker

cluster "demo" {
  kubernetes = "1.23.17"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "docker" {
  version = "20.10.24"
  config  = { registry-mirrors = ["https://mirror.example"] } # merged into the daemon.json that nodejoin writes
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
