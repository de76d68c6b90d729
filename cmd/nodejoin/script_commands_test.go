package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptCommands are what scripts can call besides testscript's own.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exitcode":   exitCodeCommand,
	"quickstart": quickstartCommand,
}

// exitCodeCommand is `exitcode N PROGRAM ARGS...`: it must end with code N.
func exitCodeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	have := 0
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%s: %v", args[1], err)
		}
		have = exit.ExitCode()
	}
	if have != want {
		ts.Fatalf("exit code %d, want %d", have, want)
	}
}

// quickstartCommand is `quickstart DIR`: a copy of the example plan with its mirror.
func quickstartCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: quickstart DIR")
	}
	from := ts.Getenv("QUICKSTART")
	to := ts.MkAbs(args[0])
	ts.Check(copyTree(from, to))
}

// copyTree copies the plan files and the mirror, but not a sandbox of other runs.
func copyTree(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	src, err := os.ReadFile(filepath.Join(from, "quickstart.join.hcl"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "quickstart.join.hcl"), src, 0o644); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(to, "mirror"), os.DirFS(filepath.Join(from, "mirror")))
}
