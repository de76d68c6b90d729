package main

import (
	"errors"
	"fmt"
	"go/version"
	"os"
	"regexp"
	"strings"
)

var (
	toolchainLine = regexp.MustCompile(`(?m)^toolchain (go\S+)$`)
	finalVersion  = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
)

// builtWith refuses a program for users that was built with an older Go than goMod asks for: that Go has a defect, or
// go.mod would not ask. Of a version that is not final it only warns.
func (r *release) builtWith(goVersion, goMod string) error {
	line := toolchainLine.FindStringSubmatch(goMod)
	if line == nil {
		return errors.New("go.mod does not have a line toolchain")
	}
	have, _, _ := strings.Cut(goVersion, " ")
	if version.Compare(have, line[1]) >= 0 {
		return nil
	}
	err := fmt.Errorf("built with %s; go.mod asks for %s or later (its comment says why); set GOTOOLCHAIN=%s", have,
		line[1], line[1])
	if finalVersion.MatchString(r.version) {
		return err
	}
	fmt.Fprintln(os.Stderr, "warning:", err)
	return nil
}
