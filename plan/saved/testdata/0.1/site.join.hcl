node "win" {
  os = "windows"
  connection "sandbox" { path = ".sandbox/win" }
}

node "linux" {
  os = "linux"
  connection "sandbox" { path = ".sandbox/linux" }
}

step "directory" "data" {
  on   = node.win
  path = "C:\\Data"
}

step "file" "conf" {
  on      = node.win
  path    = "C:\\Data\\conf"
  content = "key = value\n"
  after   = ["data"]
}

step "service" "agent" {
  on      = node.win
  name    = "Agent"
  command = ["C:\\Data\\agent.exe", "--conf", "C:\\Data\\conf"]
  state   = "stopped"
  after   = ["conf"]
}

step "feature" "hyper_v" {
  on   = node.win
  name = "Microsoft-Hyper-V"
}

step "registry" "flags" {
  on     = node.win
  key    = "HKLM\\SOFTWARE\\Site"
  name   = "Flags"
  type   = "dword"
  number = 1
  reboot = "the flags"
}

step "reboot" "boot" {
  on       = node.win
  policy   = "auto"
  features = ["Microsoft-Hyper-V"]
  after    = ["hyper_v", "flags"]
}

step "kernel_module" "bridge" {
  on   = node.linux
  name = "br_netfilter"
}

step "sysctl" "bridge_calls" {
  on    = node.linux
  name  = "net.bridge.bridge-nf-call-iptables"
  value = "1"
  after = ["bridge"]
}
