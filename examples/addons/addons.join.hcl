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

artifact "cni_plugins" { version = "1.9.1" }

# Its project publishes no program; this is one's own build of it.

artifact "nssm" { version = "2.24.0" } # the name of the file leaves out the third number

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
