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

artifact "kubernetes_node" { sha256 = "aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700" }
artifact "containerd" { sha256 = "46572e83c3dd6aad4232356090f88328879a863670a71ed1f64497b4f800d54c" }
artifact "cni_plugins" {
  version = "1.9.1"
  sha256  = "dd90c70c63c1f73d543a12e020bf6ad963ddc87e7d48f9fd9d2d01c8c9db5b4d"
}
artifact "flannel_cni" { sha256 = "daf9825f21b58793bd9affe70c675dcfe8e85c323404386a2b0cd9839455d1ea" }
artifact "flanneld" { sha256 = "1e37b239632893cbf7204aa205a1da1e1ad13fe507b2ce6fddf3e4129fefae9b" }

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
