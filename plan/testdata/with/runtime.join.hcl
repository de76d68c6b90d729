runtime "containerd" { version = "2.2.1" }
