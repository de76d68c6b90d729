// Components builds the programs that the acceptance tests run, if they are missing or stale:
//
//	go run ./components [-out DIR]
//	go run ./components -pack FOLDER [-os windows]
//
// The second one makes a folder for realjoin, with a control plane for that system.
// The first build takes about 35 minutes on two cores, later ones a second.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"nodejoin/examples/acceptance/internal/components"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "components:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := components.Dir()
	if err != nil {
		return err
	}
	flag.StringVar(&dir, "out", dir, "folder of the built components")
	folder := flag.String("pack", "", "make this `folder` for realjoin instead")
	goos := flag.String("os", "linux", "where realjoin will run: linux or windows")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	src, err := os.Getwd()
	if err != nil {
		return err
	}
	set := components.New(dir, src)
	if *folder != "" {
		return pack(ctx, set, *folder, *goos)
	}
	if err := set.Build(ctx, os.Stderr); err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}
