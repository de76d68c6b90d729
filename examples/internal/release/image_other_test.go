//go:build !linux

package main

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func runImage(t *testing.T, _ string, _ v1.Config) {
	t.Log("the program of the image runs on Linux only")
}
