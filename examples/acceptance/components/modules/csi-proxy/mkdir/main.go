//go:build windows

// Command mkdir has csi-proxy make a folder, as a storage plugin in a pod does, and says
// "made", or why not.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	api "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mkdir PATH")
		os.Exit(2)
	}
	if err := mkdir(os.Args[1]); err != nil {
		fmt.Println("not made:", err)
		os.Exit(1)
	}
	fmt.Println("made")
}

func mkdir(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := v1.NewClient()
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Mkdir(ctx, &api.MkdirRequest{Path: path})
	return err
}
