package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// CheckedFile stands for the path of the copy in the command of a contentCheck.
const CheckedFile = "{}"

// checkDir is the folder below nodejoin's own that holds the copy for the time of the check.
const checkDir = "check"

// contentCheck asks a program whether it accepts what a file is to have.
type contentCheck struct {
	path, content string
	command       []string
	sensitive     bool // what the program says is not shown
}

// run asks the program about a copy of the content; an error is its refusal, too.
func (f contentCheck) run(ctx context.Context, h host.Host, e *steps.Env) (err error) {
	dir := host.Join(e.Facts.OS, e.Facts.DataDir, checkDir)
	file, log := host.Join(e.Facts.OS, dir, host.Base(e.Facts.OS, f.path)), host.Join(e.Facts.OS, dir, "output.log")
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, steps.RemoveTree(bound, h, e.Facts.OS, dir))
	}()
	if err := h.Mkdir(ctx, dir, host.AccessPrivate); err != nil {
		return err
	}
	private := host.WriteOptions{Access: host.AccessPrivate}
	if err := h.WriteFile(ctx, file, strings.NewReader(f.content), private); err != nil {
		return err
	}
	command := slices.Clone(f.command)
	for i, a := range command {
		command[i] = strings.ReplaceAll(a, CheckedFile, file)
	}
	code, err := h.RunProgram(ctx, host.Program{Command: command, Log: log})
	if err != nil || code == 0 {
		return err
	}
	detail := fmt.Sprintf("%s does not accept the new content of %s (exit code %d)", command[0], f.path, code)
	if !f.sensitive {
		detail += logTail(ctx, h, log)
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "the content of the file is not valid", Detail: detail,
		Remedy: "correct what the plan gives of it. The file is as it was, and what reads it goes on with that"}
}
