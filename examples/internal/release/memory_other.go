//go:build !linux

package main

import (
	"context"
	"errors"
)

const measureCommand = "measure"

// frugal measures on Linux alone.
func (*release) frugal(context.Context, string, string, string) error { return nil }

func measure([]string) error { return errors.ErrUnsupported }
