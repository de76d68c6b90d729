// Command winrmd is the server of package winrmtest for a machine in a Wine prefix, which the acceptance tests start.
// Its arguments are the prefix and a program of the machine that runs a command line as WinRM's own does (winrshost).
//
// It reads the password of the user Administrator from the first line of standard input, prints its address and the
// SHA-256 of its certificate in one line, and runs until its input ends. Command lines run in Wine's cmd.exe, but for
// tar.exe, curl.exe and certutil.exe, which Wine does not have.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"nodejoin/steps/transport/winrmtest"
)

func main() {
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "winrmd:", err)
		os.Exit(1)
	}
}

func serve(prefix, host string) error {
	in := bufio.NewReader(os.Stdin)
	password, err := in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the password: %w", err)
	}
	m := machine{host: host, env: append(os.Environ(), "WINEPREFIX="+prefix, "WINEDEBUG=-all", "DISPLAY=",
		"WINEDLLOVERRIDES=mscoree,mshtml="),
		home: filepath.Join(prefix, "drive_c", "users", "Administrator")}
	if err := os.MkdirAll(m.home, 0o755); err != nil {
		return err
	}
	s, err := winrmtest.Start("Administrator", strings.TrimSuffix(password, "\n"), m.run)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(s.Addr, s.SHA256)
	_, err = io.Copy(io.Discard, in)
	return err
}

// machine is the machine in a prefix.
type machine struct {
	home string // folder of the user, where command lines start
	host string // the program that runs one
	env  []string
}

func (m machine) run(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
	if strings.HasPrefix(line, "if exist ") { // up to the end of the line
		return m.one(ctx, line, in, out, errs)
	}
	return winrmtest.Joined(m.one)(ctx, line, in, out, errs)
}

// one runs one command.
func (m machine) one(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
	argv := []string{"wine", m.host, line}
	name, args, _ := strings.Cut(line, " ")
	here := strings.Fields(strings.ReplaceAll(args, `\`, "/"))
	switch name {
	case "tar.exe", "curl.exe":
		argv = append([]string{strings.TrimSuffix(name, ".exe")}, here...)
	case "certutil.exe": // -hashfile FILE SHA256
		b, err := os.ReadFile(filepath.Join(m.home, here[1]))
		if err != nil {
			_, _ = fmt.Fprintln(errs, err)
			return 1
		}
		_, _ = fmt.Fprintf(out, "SHA256 hash of %s:\r\n%x\r\n", here[1], sha256.Sum256(b))
		return 0
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = m.home, m.env, out, errs, 5*time.Second
	// The end of a shell is that of m.host, and so of its job.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return 1
	}
	go func() { // ends with the command, whose input the server closes
		_, _ = io.Copy(stdin, in)
		_ = stdin.Close()
	}()
	_ = cmd.Wait()
	return max(cmd.ProcessState.ExitCode(), 0)
}
