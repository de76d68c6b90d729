cluster "prod" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  kubeconfig = "admin.conf"
}
