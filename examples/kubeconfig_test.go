package examples_test

import (
	"context"
	"os"
	"path/filepath"

	"nodejoin/steps/host/sandbox"
)

// kubeconfig does in a copy of the example what the example's program does in place.
func kubeconfig(ctx context.Context, dir string) error {
	cluster, err := sandbox.OpenCluster(context.Background(), sandbox.ClusterConfig{Dir: filepath.Join(dir,
		".sandbox", "cluster")})
	if err != nil {
		return err
	}
	text, err := cluster.Kubeconfig(ctx, "win-1", "https://192.0.2.1:6443")
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, ".sandbox", "kubeconfigs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "win-1.conf"), text, 0o600)
}
