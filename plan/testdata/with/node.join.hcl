node "win-1" {
  os = "windows"
  connection "sandbox" { path = "box" }
}
