# A fresh Windows Server gets a name, features, and settings that take effect only after
# a reboot. One reboot in the middle of the run is enough for all of them, and the run
# then continues. A Node that is already Ready is drained first. Host and cluster are
# sandboxes.
#
#   nodejoin apply examples/reboot

cluster "demo" {
  kubernetes = "1.36.3"
  api_server = "https://192.0.2.1:6443"
  sandbox    = ".sandbox/cluster"
}

runtime "containerd" { version = "2.2.1" }
network "flannel" { version = "0.28.9" }
mirror { path = "../quickstart/mirror" }

artifact "cni_plugins" { version = "1.9.1" }

node "win-1" {
  os = "windows"

  host {
    hostname      = "win-1"
    features      = ["Containers", "Microsoft-Hyper-V"]
    page_file     = 8096
    tcp_keepalive = "60s"

    # "never" (the default) ends the run with exit code 6 if a reboot is needed.
    # In production, reboot Nodes that serve pods in a maintenance window:
    #   reboot       = "window"
    #   reboot_times = ["Sat,Sun 22:00-04:00"]
    reboot = "auto"
  }

  connection "sandbox" {
    path = ".sandbox/win-1"
    ip   = "192.0.2.11"
  }
}
