# The machine that runs nodejoin, or a virtual one of it, over its OpenSSH server: for doctor --self-test.
variable "user" { type = string }
variable "key" { type = string }
variable "known_hosts" { type = string }

variable "port" {
  type    = number
  default = 22
}

node "self" {
  os = "windows"
  connection "ssh" {
    host        = "127.0.0.1"
    port        = var.port
    user        = var.user
    identity    = [var.key]
    known_hosts = [var.known_hosts]
    accept_new  = true
  }
}
