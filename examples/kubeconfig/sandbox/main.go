// Sandbox makes the cluster of the plan in ../kubeconfig.join.hcl and writes the
// kubeconfig of its node, as `kubeadm kubeconfig user` would with a real cluster:
//
//	go run ./examples/kubeconfig/sandbox
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"

	"nodejoin/steps/host/sandbox"
)

func main() {
	log.SetFlags(0)
	const dir = "examples/kubeconfig"
	cluster, err := sandbox.OpenCluster(context.Background(), sandbox.ClusterConfig{Dir: filepath.Join(dir,
		".sandbox", "cluster")})
	check(err)
	text, err := cluster.Kubeconfig(context.Background(), "win-1", "https://192.0.2.1:6443")
	check(err)
	// Below .sandbox with the rest of what a run leaves, so that git does not take it.
	folder := filepath.Join(dir, ".sandbox", "kubeconfigs")
	check(os.MkdirAll(folder, 0o700))
	check(os.WriteFile(filepath.Join(folder, "win-1.conf"), text, 0o600))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
