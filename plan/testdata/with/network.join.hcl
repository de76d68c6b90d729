network "flannel" { version = "0.28.9" }
