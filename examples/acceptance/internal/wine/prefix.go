package wine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"nodejoin/examples/acceptance/internal/components"
)

// dlls are the stand-in DLLs in the system folder of every machine.
var dlls = []string{"bcryptprimitives.dll", "pdh.dll", "vmcompute.dll", "computenetwork.dll", "netfw.dll",
	"dismapi.dll", "netports.dll", "netsh.exe", "bash.exe", "pwsh.exe"}

// registryFiles of examples/acceptance/wine: the look of a Windows Server 2022, the
// override that makes Wine prefer the stand-in of what it has itself, and the classes of
// the firewall and of the ports.
var registryFiles = []string{"node.reg", "dll.reg", "netfw.reg", "netports.reg"}

// ensureTemplate creates the prefix that machines are copied from, once for each state of its sources. This
// takes 10 to 20 seconds.
func ensureTemplate(ctx context.Context, set *components.Set) (string, error) {
	sum := sha256.New()
	version, err := exec.CommandContext(ctx, "wine", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("wine --version: %w", err)
	}
	sum.Write(version)
	var inputs []string
	for _, d := range dlls {
		inputs = append(inputs, set.Library(d))
	}
	for _, r := range registryFiles {
		inputs = append(inputs, set.Source("wine", r))
	}
	for _, in := range inputs {
		b, err := os.ReadFile(in)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, filepath.Base(in), len(b))
		sum.Write(b)
	}
	name := "prefix-" + hex.EncodeToString(sum.Sum(nil))[:12]
	dir := filepath.Join(set.Dir, name)

	unlock, err := components.Lock(ctx, filepath.Join(set.Dir, "."+name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	part := dir + ".part"
	if err := errors.Join(killIfThere(part), os.RemoveAll(part)); err != nil {
		return "", err
	}
	if err := makePrefix(ctx, set, part); err != nil {
		return "", errors.Join(err, killIfThere(part))
	}
	return dir, errors.Join(os.Rename(part, dir), removeOthers(set.Dir, name))
}

// removeOthers removes templates of earlier sources. Machines that were copied from
// them have links of their own.
func removeOthers(dir, name string) error {
	all, err := filepath.Glob(filepath.Join(dir, "prefix-*"))
	if err != nil {
		return err
	}
	for _, path := range all {
		if filepath.Base(path) != name {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

func killIfThere(prefix string) error {
	if _, err := os.Stat(prefix); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return killPrefix(prefix)
}

func makePrefix(ctx context.Context, set *components.Set, prefix string) error {
	if err := os.MkdirAll(prefix, 0o755); err != nil {
		return err
	}
	boot := exec.CommandContext(ctx, "wineboot", "--init")
	boot.Env, boot.Dir = environment(prefix), prefix
	if _, err := runWine(ctx, prefix, boot); err != nil {
		return err
	}
	system := filepath.Join(prefix, "drive_c", "windows", "system32")
	for _, d := range dlls {
		if err := replaceFile(set.Library(d), filepath.Join(system, d)); err != nil {
			return err
		}
	}
	steps := [][]string{{"winecfg", "-v", "win10"}}
	for _, r := range registryFiles {
		b, err := os.ReadFile(set.Source("wine", r))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(prefix, "drive_c", "windows", r), b, 0o644); err != nil {
			return err
		}
		steps = append(steps, []string{"regedit", "/S", `C:\windows\` + r})
	}
	for _, argv := range steps {
		if _, err := runWine(ctx, prefix, wineCommand(ctx, prefix, argv...)); err != nil {
			return err
		}
	}
	return killPrefix(prefix)
}

// copyPrefix creates a machine from the template with hard links, which is fast and takes no space. Files that
// Wine or a program rewrites in place must not be links.
func copyPrefix(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-al", from, to).CombinedOutput(); err != nil {
		// The template is on another file system.
		if out2, err2 := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", from, to).CombinedOutput(); err2 != nil {
			return fmt.Errorf("copy the prefix: %w: %s; %w: %s", err, out, err2, out2)
		}
		return nil
	}
	for _, name := range []string{"system.reg", "user.reg", "userdef.reg", ".update-timestamp"} {
		if err := replaceFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile replaces a file with a copy of another one.
func replaceFile(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// environment of every Wine process: no display, no browser, no messages of Wine's own.
func environment(prefix string) []string {
	env := make([]string, 0, len(os.Environ())+4)
	for _, kv := range os.Environ() {
		// The controller's own settings must not reach the machine.
		if !strings.HasPrefix(kv, "WINE") && !strings.HasPrefix(kv, "KUBE") && !strings.HasPrefix(kv, "NODEJOIN_") &&
			!strings.HasPrefix(kv, "SSH_") {
			env = append(env, kv)
		}
	}
	return append(env, "WINEPREFIX="+prefix, "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml=", "DISPLAY=")
}

func wineCommand(ctx context.Context, prefix string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "wine", argv...)
	cmd.Env = environment(prefix)
	// The current drive must be C:, or \etc means this machine's /etc.
	cmd.Dir = filepath.Join(prefix, "drive_c", "windows")
	return cmd
}

// runWine runs cmd with its output in a file, since services inherit it and would
// hold a pipe open, and gives the output with plain line ends.
func runWine(ctx context.Context, dir string, cmd *exec.Cmd) (string, error) {
	f, err := os.CreateTemp(dir, "output-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	runErr := cmd.Run()
	if runErr != nil && ctx.Err() != nil {
		runErr = context.Cause(ctx)
	}
	b, err := os.ReadFile(f.Name())
	out := strings.ReplaceAll(string(b), "\r", "")
	if runErr != nil {
		return out, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), runErr, out)
	}
	return out, err
}

// wineServer is the wineserver that Debian's 64-bit Wine uses, or the one on PATH.
func wineServer() string {
	const debian = "/usr/lib/wine/wineserver64"
	if _, err := os.Stat(debian); err == nil {
		return debian
	}
	return "wineserver"
}

// killPrefix ends all processes of one prefix and waits for its server.
func killPrefix(prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	kill := exec.CommandContext(ctx, wineServer(), "-k")
	kill.Env = environment(prefix)
	err := kill.Run()
	var exit *exec.ExitError
	// Exit code 1 only says that no server runs.
	if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).ExitStatus() != 1) {
		return fmt.Errorf("wineserver -k: %w", err)
	}
	return waitPrefix(prefix)
}

// waitPrefix waits until no process of the prefix is left and its registry is written.
func waitPrefix(prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	wait := exec.CommandContext(ctx, wineServer(), "-w")
	wait.Env = environment(prefix)
	if err := wait.Run(); err != nil {
		return fmt.Errorf("wineserver -w: %w", err)
	}
	return nil
}
