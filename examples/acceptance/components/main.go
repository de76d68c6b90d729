// Components builds the programs that the acceptance tests run, if they are missing or stale:
//
//	go run ./components [-out DIR]
//
// The first build takes about 18 minutes on two cores, later ones a second.
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
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	src, err := os.Getwd()
	if err != nil {
		return err
	}
	set := components.New(dir, src)
	if err := set.Build(ctx, os.Stderr); err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}
