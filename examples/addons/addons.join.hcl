# Additional services (csi-proxy for storage plugins whose pods have no rights on the
# machine, windows_exporter for Prometheus), and how services run: one node runs them
# under nssm. Hosts and cluster are sandboxes, as in ../quickstart, whose programs this
# plan uses:
#
#   nodejoin plan  examples/addons
#   nodejoin apply examples/addons

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }
network "flannel" { version = "0.28.9" }

mirror { path = "../quickstart/mirror" }

artifact "kubernetes_node" { sha256 = "aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700" }
artifact "containerd" { sha256 = "46572e83c3dd6aad4232356090f88328879a863670a71ed1f64497b4f800d54c" }
artifact "cni_plugins" {
  version = "1.9.1"
  sha256  = "dd90c70c63c1f73d543a12e020bf6ad963ddc87e7d48f9fd9d2d01c8c9db5b4d"
}
artifact "flannel_cni" { sha256 = "daf9825f21b58793bd9affe70c675dcfe8e85c323404386a2b0cd9839455d1ea" }
artifact "flanneld" { sha256 = "1e37b239632893cbf7204aa205a1da1e1ad13fe507b2ce6fddf3e4129fefae9b" }

# Its project publishes no program; this is one's own build of it.
artifact "csi_proxy" { sha256 = "2dd7cffdc9ada858a605ab02dfc5bc3bc506cdc81c4f84988e4103f58233a106" }
artifact "windows_exporter" { sha256 = "9c882e83df50d80da0519c5832c8d0d227ebed32801d590370ea03f749262ecb" }

artifact "nssm" {
  version = "2.24.0" # the name of the file leaves out the third number
  sha256  = "ec597f694fa007edc0ee8e4bcd84445379b057c02a933404fc083c9adb84b1f9"
}

profile "windows" {
  os = "windows"

  csi_proxy { version = "1.1.3" }

  # One machine may query it; its metrics include what others write to C:\metrics.
  windows_exporter {
    version      = "0.31.3"
    collectors   = ["[defaults]", "container"]
    textfile_dir = "C:\\metrics"
    remote       = ["10.0.0.5"]
  }

  # The kubelet gets its share of a busy processor. kube-log-runner rotates its log
  # sooner, and failed services restart later than by default.
  services {
    priority      = "above_normal"
    log_size      = 20
    restart_delay = "30s"
  }

  # A port range for many connections, without the ports of NodePort services.
  host {
    dynamic_ports  = "16385-65535"
    reserved_ports = ["30000-32767/tcp", "65330/udp"]
  }
}

node "win-1" {
  profile = profile.windows
  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
  }
}

node "win-2" {
  profile = profile.windows
  csi_proxy { install = false }
  services { manager = "nssm" }
  connection "sandbox" {
    path = ".sandbox/win-2"
    ip   = "192.0.2.12"
  }
}
