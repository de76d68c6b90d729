# Two Windows hosts join a cluster. Hosts and cluster are sandboxes: folders below
# .sandbox/ that behave like the real thing. Run this plan as often as you like:
#
#   nodejoin plan  examples/quickstart     what would change
#   nodejoin apply examples/quickstart     change it; a second run has no changes
#
# Then edit a file below .sandbox/win-1 and run plan again. To start over, delete
# .sandbox. The plan for real hosts is in ../windows-ssh.

nodejoin { required_version = ">= 0.1.0-0" }

# The cluster to join. A real one has `kubeconfig = "~/.kube/config"` here instead
# of `sandbox`; that file is read on this machine and never copied to a node.
cluster "demo" {
  kubernetes   = "1.36.3"
  api_server   = "https://10.0.0.10:6443" # as the nodes reach it
  sandbox      = ".sandbox/cluster"
  pod_cidr     = "10.244.0.0/16"
  service_cidr = "10.96.0.0/12"
  dns_ip       = "10.96.0.10"

  # Each node gets its own token, created just before the kubelet needs it and
  # revoked when the node is Ready.
  join "bootstrap_token" { ttl = "15m" }
}

runtime "containerd" { version = "2.2.1" }

network "flannel" {
  version = "0.28.9"
  backend = "vxlan"
}

# What is installed comes from this folder, under upstream's file names, and is
# checked against the digests in nodejoin.lock.hcl before anything of it is used.
# `nodejoin lock` writes that file. The files here are stand-ins (mirror/generate.go);
# without a mirror they come from upstream.
mirror { path = "./mirror" }

artifact "cni_plugins" { version = "1.9.1" }

# What all nodes of one sort have in common.
profile "windows" {
  os     = "windows"
  labels = { "example.com/pool" = "windows" }

  # Keeps pods off that do not select Windows.
  taint {
    key    = "os"
    value  = "windows"
    effect = "NoSchedule"
  }
}

# One block, two machines. A node becomes some 50 steps; `nodejoin graph` shows them.
node "win" {
  for_each = { "win-1" = "192.0.2.11", "win-2" = "192.0.2.12" }
  name     = each.key
  profile  = profile.windows

  connection "sandbox" {
    path = ".sandbox/${each.key}"
    ip   = each.value
  }
}

# Any kind of step can be written by hand, too, and placed among those of the node.
step "file" "motd" {
  on      = node.win
  path    = "C:\\k\\README.txt"
  content = "${self.name} was joined by nodejoin; its address is ${self.management_ip}.\n"
  after   = ["kubelet"]
}
