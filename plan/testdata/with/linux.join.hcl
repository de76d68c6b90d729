node "lin" {
  os = "linux"
  connection "local" {}
}
