// Lanes runs test packages side by side, and prints what `go test -json` prints. Each unit
// runs in a network and process namespace of its own, so that tests that use the same fixed
// ports do not meet, and nothing that a test starts outlives it. A unit is one test of the
// package in this folder, or all tests of another package.
//
//	lanes [-lanes N] [-timeout D] [-test.run REGEXP] [-also PACKAGE,...] [PACKAGE...]
//
// PACKAGE is an import path of this module or of nodejoin's own; without one it is all of
// this module, and those of -also.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"nodejoin/examples/acceptance/internal/components"
)

// errFailed says that a test failed, which the events tell.
var errFailed = errors.New("a test failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, errFailed):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "lanes:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("lanes", flag.ContinueOnError)
	lanes := flags.Int("lanes", runtime.NumCPU()+2, "units that run at once; they wait half of their time")
	timeout := flags.Duration("timeout", 30*time.Minute,
		"bound of one unit; one that has passed before may take three times as long as then")
	pattern := flags.String("test.run", "", "run only tests that match")
	also := flags.String("also", "", "packages beside those of this module, if none is named")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "nodejoin-lanes-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	set, err := components.Dir()
	if err != nil {
		return err
	}
	packages := flags.Args()
	if len(packages) == 0 {
		all, err := output(ctx, ".", "go", "list", "-f",
			"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
		if err != nil {
			return err
		}
		packages = append(strings.Fields(all), strings.FieldsFunc(*also, func(c rune) bool { return c == ',' })...)
	}
	units, err := build(ctx, dir, set, packages, *pattern)
	if err != nil {
		return err
	}
	history := filepath.Join(set, "times.json")
	times := readTimes(history)
	order(units, times)
	test2json, err := output(ctx, ".", "go", "tool", "-n", "test2json")
	if err != nil {
		return err
	}
	r := &runner{dir: dir, pattern: *pattern, timeout: *timeout, test2json: test2json, times: times,
		events: newEvents(os.Stdout, units)}
	err = r.run(ctx, units, *lanes)
	return errors.Join(err, writeTimes(history, times))
}

// build compiles the packages' tests into dir and lists what there is to run. set is the folder of the components.
func build(ctx context.Context, dir, set string, packages []string, pattern string) ([]unit, error) {
	here, err := output(ctx, ".", "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}")
	if err != nil {
		return nil, err
	}
	module, root, _ := strings.Cut(here, " ")
	var units []unit
	for _, pkg := range packages {
		u := unit{pkg: pkg, bin: filepath.Join(dir, strings.ReplaceAll(pkg, "/", "_")+".test")}
		from := root
		if pkg != module && !strings.HasPrefix(pkg, module+"/") {
			from = filepath.Join(root, "..", "..")
			u.env = []string{"NODEJOIN_COMPONENTS=" + filepath.Join(set, "bin"), "NODEJOIN_REQUIRE=1"}
		}
		if u.dir, err = output(ctx, from, "go", "list", "-f", "{{.Dir}}", pkg); err != nil {
			return nil, err
		}
		if _, err := output(ctx, from, "go", "test", "-c", "-o", u.bin, pkg); err != nil {
			return nil, err
		}
		if u.dir != root {
			units = append(units, u)
			continue
		}
		list, err := output(ctx, u.dir, u.bin, "-test.list", orAll(pattern))
		if err != nil {
			return nil, err
		}
		for _, test := range strings.Fields(list) {
			one := u
			one.test = test
			units = append(units, one)
		}
	}
	return units, markAlone(units, pattern == "")
}

func orAll(pattern string) string {
	if pattern == "" {
		return "."
	}
	return pattern
}

// output runs a command and gives what it printed.
func output(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stderr strings.Builder
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
