//go:build !windows

package main

import "os/exec"

// shell lets the package build elsewhere.
func shell(line string) *exec.Cmd { return exec.Command("sh", "-c", line) }
