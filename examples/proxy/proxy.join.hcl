# A Windows host behind a proxy, with recommended settings of the machine. Host and
# cluster are sandboxes, as in ../quickstart, whose programs this plan uses. NO_PROXY has
# what must not go through the proxy:
#
#   nodejoin plan  examples/proxy
#   nodejoin apply examples/proxy

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }
network "flannel" { version = "0.28.9" }

mirror { path = "../quickstart/mirror" }

artifact "cni_plugins" { version = "1.9.1" }

# With user and password: NODEJOIN_VAR_proxy=http://user:password@proxy.example:3128
variable "proxy" {
  type      = string
  default   = "http://proxy.example:3128"
  sensitive = true
}

profile "windows" {
  os = "windows"

  # Variables of the machine, and of containerd and the kubelet, which restart when
  # one changes. The API server, the cluster's networks and names, and the machine
  # itself are always in NO_PROXY.
  proxy {
    http     = var.proxy
    https    = var.proxy
    no_proxy = [".corp.example"]
  }

  # Who may connect to the kubelet, and one more open port.
  firewall {
    remote = ["10.0.0.0/8", "192.0.2.0/24"]
    allow "windows_exporter" {
      ports  = "9182"
      remote = ["10.0.0.5"]
    }
  }

  # Proven settings for Windows nodes (../language.md lists them), and more. All other
  # settings stay as they are.
  host {
    defaults       = true
    page_file      = 8096
    crash_dump     = "kernel"
    static_address = true
  }
}

node "win-1" {
  profile = profile.windows

  file "site" {
    path    = "C:\\k\\site.txt"
    content = "rack 7\n"
  }

  connection "sandbox" {
    path  = ".sandbox/win-1"
    build = "10.0.17763"
    ip    = "192.0.2.11"
  }
}
