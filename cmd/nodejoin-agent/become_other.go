//go:build !linux

package main

import "errors"

// become is for Linux.
func become(string, string, bool) error { return errors.ErrUnsupported }
