package winrmtest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Cmd stands in for cmd.exe in a folder of this machine, the home folder of the user: it takes mkdir, rmdir, move /y,
// del /f /q, dir /b, type, exit, tar.exe, curl.exe and certutil.exe, each as nodejoin uses it, joined as Joined does,
// and runs agents with "serve FOLDER", "outside FOLDER" and "receive FOLDER DIGEST SIZE". drive is the folder that C:
// is there.
func Cmd(home, drive string) Run {
	one := single(home, drive)
	var run Run
	joined := Joined(func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
		if ifExist.MatchString(line) {
			return run(ctx, line, in, out, errs)
		}
		return one(ctx, line, in, out, errs)
	})
	run = func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
		m := ifExist.FindStringSubmatch(line)
		if m == nil {
			return joined(ctx, line, in, out, errs)
		}
		if _, err := os.Stat(local(home, m[1])); err != nil { // up to the end of the line
			return 0
		}
		return run(ctx, m[2], in, out, errs)
	}
	return run
}

// Joined runs command lines whose commands are joined by "&", "||" and "&&", the last of which binds most, as
// cmd.exe does.
func Joined(one Run) Run {
	var run Run
	run = func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
		if left, right, ok := strings.Cut(line, " & "); ok {
			run(ctx, left, in, out, errs)
			return run(ctx, right, in, out, errs)
		}
		if left, right, ok := strings.Cut(line, " || "); ok {
			if run(ctx, left, in, out, errs) == 0 {
				return 0
			}
			return run(ctx, right, in, out, errs)
		}
		if left, right, ok := strings.Cut(line, " && "); ok {
			if code := run(ctx, left, in, out, errs); code != 0 {
				return code
			}
			return run(ctx, right, in, out, errs)
		}
		return one(ctx, line, in, out, errs)
	}
	return run
}

var ifExist = regexp.MustCompile(`^if exist (\S+) (.+)$`)

// local is where a path of the user's home folder is here.
func local(home, path string) string { return filepath.Join(home, strings.ReplaceAll(path, `\`, "/")) }

// single runs one command.
func single(home, drive string) Run {
	return func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
		path := func(p string) string { return local(home, p) }
		fail := func(err error) int {
			if err == nil {
				return 0
			}
			_, _ = fmt.Fprintln(errs, err)
			return 1
		}
		if m := curl.FindStringSubmatch(line); m != nil {
			code, err := fetch(ctx, m, path(m[4]))
			_ = fail(err)
			return code
		}
		m := commands.FindStringSubmatch(line)
		if m == nil {
			return fail(fmt.Errorf("'%s' is not recognized as an internal or external command", line))
		}
		rest := strings.Fields(m[2])
		switch m[1] {
		case "mkdir":
			if _, err := os.Stat(path(rest[0])); err == nil {
				return fail(fmt.Errorf("A subdirectory or file %s already exists.", rest[0])) //nolint:staticcheck // as cmd.exe
			}
			return fail(os.MkdirAll(path(rest[0]), 0o700))
		case "rmdir /s /q":
			if fi, err := os.Stat(path(rest[0])); err == nil && !fi.IsDir() {
				return fail(fmt.Errorf("The directory name is invalid.")) //nolint:staticcheck // as cmd.exe
			}
			return fail(os.RemoveAll(path(rest[0])))
		case "rmdir", "del /f /q":
			return fail(os.Remove(path(rest[0])))
		case "exit":
			code, err := strconv.Atoi(rest[0])
			return cmp.Or(code, fail(err))
		case "move /y":
			return fail(os.Rename(path(rest[0]), path(rest[1])))
		case "dir /b":
			list, err := os.ReadDir(path(rest[0]))
			for _, e := range list {
				_, _ = fmt.Fprint(out, e.Name(), "\r\n")
			}
			if err == nil && len(list) == 0 {
				return fail(fmt.Errorf("File Not Found")) //nolint:staticcheck // as cmd.exe
			}
			return fail(err)
		case "type":
			b, err := os.ReadFile(path(rest[0]))
			_, _ = out.Write(b)
			return fail(err)
		case "tar.exe -xozmf - -C":
			return program(ctx, exec.CommandContext(ctx, "tar", "-xozmf", "-", "-C", path(rest[0])), in, out, errs)
		case "tar.exe -xozmf":
			tar := exec.CommandContext(ctx, "tar", "-xozmf", path(rest[0]), "-C", path(rest[2]))
			return program(ctx, tar, in, out, errs)
		case "certutil.exe -hashfile":
			return fail(certutil(path(rest[0]), rest[1], out))
		}
		folder, err := hex.DecodeString(rest[0])
		if err != nil {
			return fail(err)
		}
		data := strings.ReplaceAll(strings.Replace(string(folder), "C:", drive, 1), `\`, "/")
		agent, mode, _ := strings.Cut(m[1], " ")
		if _, err := os.Stat(path(agent)); err != nil {
			return fail(fmt.Errorf("The system cannot find the path specified.")) //nolint:staticcheck // as cmd.exe
		}
		args := append([]string{mode, hex.EncodeToString([]byte(data))}, rest[1:]...)
		cmd := exec.CommandContext(ctx, path(agent), args...)
		cmd.Dir = home
		return program(ctx, cmd, in, out, errs)
	}
}

// certutil stands in for certutil.exe.
func certutil(path, algorithm string, out io.Writer) error {
	b, err := os.ReadFile(path)
	if err != nil || algorithm != "SHA256" {
		return cmp.Or(err, errors.ErrUnsupported)
	}
	_, err = fmt.Fprintf(out, "SHA256 hash of %s:\r\n%x\r\nCertUtil: -hashfile command completed successfully.\r\n",
		path, sha256.Sum256(b))
	return err
}

var commands = regexp.MustCompile(`^(mkdir|rmdir /s /q|rmdir|del /f /q|move /y|dir /b|type|exit|` +
	`tar\.exe -xozmf - -C|tar\.exe -xozmf|certutil\.exe -hashfile|` +
	`\.nodejoin\\agent\\nodejoin-agent-[0-9a-f]+\.exe (?:serve|outside|receive)) ` +
	`(\S+(?: \S+| -C \S+| [0-9a-f]+ \d+)?)$`)

// program runs a program to its end. It is killed where ctx ends, as by the end of a shell.
func program(ctx context.Context, cmd *exec.Cmd, in io.Reader, out, errs io.Writer) int {
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, 5*time.Second
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return 1
	}
	go func() { // ends with the command, which closes in
		_, _ = io.CopyBuffer(struct{ io.Writer }{stdin}, in, make([]byte, 256<<10))
		_ = stdin.Close()
	}()
	_ = cmd.Wait()
	if ctx.Err() != nil {
		return 1
	}
	return cmd.ProcessState.ExitCode()
}
