package main

import (
	"fmt"
	"os/exec"
	"runtime"
)

// condition is a condition of scripts. [namespaces]: a program may mount a file system of its own, as root or in a
// user namespace.
func condition(name string) (bool, error) {
	if name != "namespaces" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	for _, how := range []string{"-m", "-rm"} {
		if runtime.GOOS == "linux" && exec.Command("unshare", how, "mount", "-t", "tmpfs", "none", "/mnt").Run() == nil {
			return true, nil
		}
	}
	return false, nil
}
