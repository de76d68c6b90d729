package acceptance_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/machine"
)

// sudoPassword is the password of the user without root's rights.
const sudoPassword = "correct-horse-7431-battery"

const sudoPlan = `
node "box" {
  os = "linux"
  connection "ssh" {
    host        = %[1]q
    user        = "deploy"
    identity    = [%[5]s]
    known_hosts = ["%[2]s/known_hosts"]
    %[3]s
  }
}
variable "text" {
  type    = string
  default = "first"
}
step "preflight" "linux" {
  os   = "linux"
  only = ["operating-system", "administrator"]
}
step "archive" "tools" {
  file   = "tools.tar.gz"
  sha256 = %[4]q
  to     = "/opt/tools"
  after  = ["linux"]
}
step "file" "config" {
  path    = "/etc/box/config"
  content = "${var.text}\n"
  access  = "private"
}
step "service" "sleeper" {
  name    = "sleeper"
  command = ["/opt/tools/sleep", "3600"]
  watch   = ["/etc/box/config"]
  after   = ["tools", "config"]
}
`

// sudoBed is a machine with the distribution's SSH server, sudo and doas, and a user without root's rights.
type sudoBed struct {
	*linuxBed
	program string
	digest  string   // of the artifact
	keys    []string // files of the keys that nodejoin logs in with
}

func newSudoBed(ctx context.Context, t *testing.T) *sudoBed {
	t.Helper()
	b := &sudoBed{linuxBed: &linuxBed{t: t, dir: t.TempDir()}}
	b.machine = startMachine(ctx, t, machine.Options{Dir: t.TempDir(), Name: "box", Network: "10.89.18"})
	b.startSSHD(ctx)
	b.letIn(ctx, "deploy")
	b.run(ctx, "sh", "-c", "echo deploy:"+sudoPassword+" | chpasswd && rm -f /etc/doas.conf && "+
		"echo 127.0.0.1 localhost box >> /etc/hosts") // sudo looks its host up, and there is no name server
	b.program = string(released(t))
	b.digest = writeTools(t, filepath.Join(b.dir, "tools.tar.gz"), 0)
	b.keys = []string{filepath.Join(b.dir, "user")}
	return b
}

// letIn makes users who are not root, and log in with the key of the bed.
func (b *linuxBed) letIn(ctx context.Context, users ...string) {
	b.t.Helper()
	for _, user := range users {
		b.run(ctx, "useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", user) // else it is locked
	}
	b.run(ctx, "sh", "-c", "chmod 755 /opt/sshd && chmod 644 /opt/sshd/user.pub")
}

// run runs a program on the machine and returns its standard output.
func (b *linuxBed) run(ctx context.Context, argv ...string) string {
	b.t.Helper()
	var said bytes.Buffer
	cmd := b.machine.Command(ctx, argv...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%q: %v\n%s%s", argv, err, out, said.String())
	}
	return string(out)
}

// sudoers replaces what sudo allows.
func (b *sudoBed) sudoers(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.machine.Path("/etc/sudoers"), []byte(text), 0o440); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Chmod(b.machine.Path("/etc/sudoers"), 0o440); err != nil {
		b.t.Fatal(err)
	}
}

// plan writes the plan; more of its connection has a become block.
func (b *sudoBed) plan(more string) {
	b.t.Helper()
	text := fmt.Sprintf(sudoPlan, b.machine.IP(), b.dir, more, b.digest, `"`+strings.Join(b.keys, `", "`)+`"`)
	if err := os.WriteFile(filepath.Join(b.dir, "box.join.hcl"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// nodejoin runs the program on the plan with a become block, and returns its exit code and what it printed.
func (b *sudoBed) nodejoin(become, password string, args ...string) (code int, out string) {
	b.t.Helper()
	b.plan(become)
	// It also ends what the test started.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.program, append([]string{args[0], b.dir}, args[1:]...)...)
	cmd.Dir = repository(b.t)
	cmd.Env = environment(b.t)
	if password != "" {
		cmd.Env = append(cmd.Env, "SUDO_PASSWORD="+password)
	}
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-ended: //nolint:errcheck // its exit code is looked at
			tick.Stop()
			out := both.String()
			if strings.Contains(out, sudoPassword) {
				b.t.Errorf("%v prints the password:\n%s", cmd.Args, out)
			}
			return cmd.ProcessState.ExitCode(), out
		case <-tick.C:
			b.noPasswordInProcesses()
		}
	}
}

// noPasswordInProcesses checks that no process of the machine has the password in its arguments or environment.
func (b *sudoBed) noPasswordInProcesses() {
	b.t.Helper()
	for _, what := range []string{"cmdline", "environ"} {
		names, err := filepath.Glob(b.machine.Path("/proc/[0-9]*/" + what))
		if err != nil || len(names) == 0 {
			b.t.Fatalf("no processes on the machine: %v", err)
		}
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(sudoPassword)) {
				b.t.Errorf("the password is in %s: %q", name, text)
			}
		}
	}
}

func (b *sudoBed) want(code int, become, password string, args []string, says ...string) string {
	b.t.Helper()
	have, out := b.nodejoin(become, password, args...)
	if have != code {
		b.t.Errorf("%q with %s: exit code %d, want %d:\n%s", args, become, have, code, out)
	}
	for _, s := range says {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), s) {
			b.t.Errorf("%q with %s does not say %q:\n%s", args, become, s, out)
		}
	}
	return out
}

// TestLinuxSudo: Debian's OpenSSH, sudo and doas, and a user who is not root. What root can do works here, too: a plan
// with a staged artifact and a service, the lock, history, doctor, logs and leave. What is refused is refused with
// its reason, and the password is nowhere but on sudo's standard input. Then the machine stands behind two jump hosts.
func TestLinuxSudo(t *testing.T) {
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newSudoBed(ctx, t)
	const (
		bare   = `become {}`
		asking = `become { password_env = "SUDO_PASSWORD" }`
		doas   = `become { method = "doas" }`
		all    = "Defaults secure_path=/usr/sbin:/usr/bin:/sbin:/bin\nroot ALL=(ALL:ALL) ALL\n"
	)
	apply := []string{"apply", "--auto-approve", "--display", "plain"}
	plan := []string{"plan", "--display", "plain"}

	b.sudoers(all + "deploy ALL=(ALL:ALL) ALL\n")
	b.want(0, asking, sudoPassword, apply, "Applied: 3 changed")
	b.want(0, asking, sudoPassword, apply, "No changes")
	b.want(4, bare, "", plan, "sudo does not run the agent without a password", "a password is required", "password_env")
	b.want(4, asking, "", plan, "no password for sudo", "SUDO_PASSWORD is not set")
	b.want(4, asking, "not-"+sudoPassword[:7], plan, "sudo refuses the password", "one wrong try")
	b.want(0, asking, sudoPassword, []string{"history"}, "apply")
	b.want(0, asking, sudoPassword, []string{"doctor"}, "Found on 1 host")
	b.want(0, asking, sudoPassword, []string{"logs", "--output", filepath.Join(b.dir, "logs.zip")})
	if who := b.run(ctx, "stat", "-c", "%U %a", "/etc/box/config", "/var/lib/nodejoin"); who != "root 600\nroot 700\n" {
		t.Errorf("files that sudo made have owner and mode %s", who)
	}
	if left := b.run(ctx, "sh", "-c",
		"ls -A /home/deploy/.nodejoin/agent | grep -v '^nodejoin-agent-[0-9a-f]*$' || true"); left != "" {
		t.Errorf("files beside the agent: %s", left)
	}

	// Without a password, the user may run this program as root and no other.
	digest := strings.Fields(b.run(ctx, "sh", "-c", "sha256sum /home/deploy/.nodejoin/agent/nodejoin-agent-*"))[0]
	b.sudoers(all + "deploy ALL=(root) NOPASSWD: sha256:" + digest + " /home/deploy/.nodejoin/agent/nodejoin-agent-*\n")
	b.want(0, bare, "", append(apply, "--var", "text=second"), "Applied: 2 changed")
	b.want(0, asking, sudoPassword, apply, "Applied: 2 changed")
	b.sudoers(all + "deploy ALL=(root) NOPASSWD: /usr/bin/true\n")
	b.want(4, asking, sudoPassword, plan, "sudo does not run the agent", "not allowed to execute")
	b.sudoers(all)
	b.want(4, asking, sudoPassword, plan, "sudo does not run the agent", "not in the sudoers file")
	b.sudoers(all + "Defaults requiretty\ndeploy ALL=(ALL:ALL) NOPASSWD: ALL\n")
	b.want(4, bare, "", plan, "you must have a tty", "Defaults:deploy !requiretty")
	b.sudoers(all + "Defaults requiretty\nDefaults:deploy !requiretty\ndeploy ALL=(ALL:ALL) NOPASSWD: ALL\n")
	b.want(0, bare, "", apply, "No changes")

	// Root runs nothing from a folder that others can write to.
	b.run(ctx, "chmod", "777", "/home/deploy")
	b.want(4, bare, "", plan, "root cannot trust the agent's folder", "/home/deploy can be changed by others")
	b.run(ctx, "chmod", "755", "/home/deploy")

	b.want(4, doas, "", plan, "doas does not run the agent without a password")
	const permit = "permit nopass deploy as root\n"
	if err := os.WriteFile(b.machine.Path("/etc/doas.conf"), []byte(permit), 0o600); err != nil {
		t.Fatal(err)
	}
	b.want(0, doas, "", apply, "No changes")

	b.want(0, bare, "", []string{"leave", "--auto-approve", "--target", "node.box", "--display", "plain"})
	if left := b.run(ctx, "sh", "-c",
		"ls -d /home/deploy/.nodejoin /var/lib/nodejoin /etc/box /opt/tools 2>/dev/null || true"); left != "" {
		t.Errorf("files after the leave: %s", left)
	}
	b.behindGates(ctx)
	b.run(ctx, "rm", "/usr/bin/sudo")
	b.want(4, bare, "", plan, "there is no sudo on the machine")

	// The password is in no file of the machine, its logs included, and in none that the controller keeps.
	for _, root := range []string{b.machine.Upper(), b.dir, home(t)} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(sudoPassword)) {
				t.Errorf("the password is in %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
