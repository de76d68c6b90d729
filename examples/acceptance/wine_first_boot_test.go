package acceptance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodejoin/examples/acceptance/internal/hns"
	"nodejoin/examples/acceptance/internal/wine"
)

// Parts of a first boot on Windows.
const (
	bakedNode     = "baked-win"
	firstBootTask = `C:\windows\tasks-stand-in\nodejoin-first-boot` // of oscommands
	firstBootDir  = `C:\ProgramData\nodejoin-first-boot`
	firstBootLog  = firstBootDir + ".log"
	keyFile       = `C:\ProgramData\ssh\ssh_host_ed25519_key`
)

// winSecret is in a file of the plan that no image has.
const winSecret = `
step "file" "password" {
  path      = "C:\\app\\password"
  content   = "` + bakedSecret + `"
  sensitive = true
}
`

// TestFirstBootWindows: a machine is baked over SSH, and its disk is copied twice. The copies have nothing of the
// machine, and other addresses. Each joins by the commands that its program runs, cloudbase-init and EC2Launch, and
// has keys of its own; those of Windows Setup make the same task, and take the tokens out of its copies of the file.
// Wine has no network of its own for each machine, so they are up one after the other, and the interface gets the
// address of each.
func TestFirstBootWindows(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	baked := giveAddress(ctx, t, 1)
	image := newBedWith(ctx, t, startCluster(ctx, t), wine.Options{IP: baked})
	guid := image.wantBaked(ctx, baked)
	site := t.TempDir()
	program := filepath.Join(site, "nodejoin.exe")
	if err := os.Link(nodejoin(t, "windows"), program); err != nil {
		t.Fatal(err)
	}
	from := serveFolder(ctx, t, "127.0.0.1", site)
	keys := map[string][]byte{}
	for i, format := range []string{"cloudbase-init", "ec2launch"} {
		t.Run(format, func(t *testing.T) {
			name := fmt.Sprintf("win-%d", i+1)
			address := giveAddress(ctx, t, i+2)
			b := newBedOf(ctx, t, image.cluster, wine.Options{IP: address}, image.host.Copy)
			b.playWindows(ctx)
			args := b.bootPlan(map[string]string{name: address})
			bundle, data := filepath.Join(site, name+".tar"), filepath.Join(b.dir, "user-data")
			for _, call := range [][]string{append([]string{"lock"}, args...),
				append([]string{"bundle", "--no-images", "-o", bundle}, args...),
				{"user-data", bundle, name, "--for", "autounattend", "--from", from, "--program", program, "-o", data + ".xml"},
				{"user-data", bundle, name, "--for", format, "--from", from, "--program", program, "-o", data}} {
				released(t).must(ctx, t, call...)
			}
			b.firstBoot(ctx, format, data)
			b.wantReady(ctx, name)
			b.wantKeysPrivate()
			wantNothing(ctx, t, args)
			for _, path := range []string{`C:\var\lib\kubelet\pki\kubelet-client-current.pem`,
				tokenFolder + `\flannel.token`, tokenFolder + `\kube-proxy.token`} {
				now := b.read(path)
				if bytes.Equal(now, keys[path]) || len(now) < 32 {
					t.Errorf("%s: %d bytes, those of the other copy: %v", path, len(now), bytes.Equal(now, keys[path]))
				}
				keys[path] = now
			}
			b.withoutTraces(bakedNode, baked, guid)
		})
	}
}

// giveAddress is the address of the n-th machine of a test. Where the network is the test's own (lanes), the interface
// with the default route has it from now on, and no other, so that the Node has it, too; elsewhere it is one of
// loopback, and the Node has that of the computer.
func giveAddress(ctx context.Context, t *testing.T, n int) string {
	t.Helper()
	if _, err := net.InterfaceByName("uplink-end"); err != nil {
		return fmt.Sprintf("127.0.21.%d", n)
	}
	ip := fmt.Sprintf("192.0.2.%d", 20+n)
	for _, line := range []string{"-4 addr flush dev uplink", "addr add " + ip + "/24 dev uplink",
		"route replace default via 192.0.2.1"} {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	return ip
}

// wantBaked makes an image of the machine, which has this address, and is down afterwards. It returns the MachineGuid,
// which bake leaves to Sysprep, and the test plays that.
func (b *bed) wantBaked(ctx context.Context, address string) (guid string) {
	b.t.Helper()
	host, err := os.ReadFile(b.host.Path(`C:\windows\ssh_host_key`))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(b.host.Path(keyFile)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.host.Path(keyFile), host, 0o600); err != nil {
		b.t.Fatal(err)
	}
	node, err := hns.NodeIP()
	if err != nil {
		b.t.Fatal(err)
	}
	args := b.bootPlan(map[string]string{bakedNode: address})
	out := released(b.t).must(ctx, b.t, append([]string{"bake", "--auto-approve"}, args...)...)
	if !strings.Contains(out, bakedNode+" is ready to be an image.") ||
		!strings.Contains(out, "a host key of SSH ("+keyFile+")") {
		b.t.Fatalf("bake:\n%s", out)
	}
	b.t.Logf("bake:\n%s", tail(out))
	if err := b.host.Stop(); err != nil {
		b.t.Fatal(err)
	}
	// What the test's own server has of the machine.
	if err := errors.Join(os.Remove(b.host.Path(`C:\windows\ssh_host_key`)),
		os.Remove(b.host.Path(`C:\windows\winsshd.log`)), b.host.ListenAt("127.0.0.1")); err != nil {
		b.t.Fatal(err)
	}
	if guid, err = b.host.Generalize(); err != nil {
		b.t.Fatal(err)
	}
	b.withoutTraces(bakedNode, bakedSecret, strings.Split(string(host), "\n")[2], address, node, guid)
	return guid
}

// withoutTraces searches the disk of the machine, with its registry, for texts in UTF-8 and UTF-16.
func (b *bed) withoutTraces(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		if err := withoutText(b.host.Prefix, text); err != nil {
			b.t.Errorf("%q of the baked machine: %v", text, err)
		}
	}
}

// bootPlan is the example plan with its values beside it, so that a bundle has them, and returns its folder. pairs are
// those of planWith.
func (b *bed) bootPlan(hosts map[string]string, pairs ...string) (args []string) {
	b.t.Helper()
	v := b.variables(b.host.Port())
	v.Hosts = hosts
	text, err := json.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &values); err != nil {
		b.t.Fatal(err)
	}
	var file strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&file, "%s = %s\n", name, values[name])
	}
	dir := planWith(b.t, pairs...)
	for name, text := range map[string]string{"bed.auto.joinvars": file.String(), "secret.join.hcl": winSecret} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	return []string{dir}
}

// playWindows gives the machine programs of Windows that Wine lacks.
func (b *bed) playWindows(ctx context.Context) {
	b.t.Helper()
	program := goBuildIn(b.t, filepath.Join(repository(b.t), "examples", "acceptance"), "windows", "oscommands.exe",
		"build", "./oscommands")
	for _, name := range []string{"curl", "certutil", "findstr", "schtasks"} {
		at := b.host.Path(`C:\windows\system32\` + name + ".exe")
		if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
		b.copyIn(program, `C:\windows\system32\`+name+".exe")
		b.reg(ctx, "add", `HKCU\Software\Wine\DllOverrides`, "/v", name+".exe", "/d", "native", "/f")
	}
}

// firstBoot runs user data as its program does, and then what it has put into the task scheduler.
func (b *bed) firstBoot(ctx context.Context, format, data string) {
	b.t.Helper()
	text, err := os.ReadFile(data)
	if err != nil {
		b.t.Fatal(err)
	}
	// Both write the script to a file and run that by cmd.exe.
	script, at := text, `C:\windows\temp\user-data.cmd`
	if format == "ec2launch" {
		var file struct {
			Tasks []struct {
				Inputs []struct{ Type, Content string }
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil || len(file.Tasks) != 1 || len(file.Tasks[0].Inputs) != 1 ||
			file.Tasks[0].Inputs[0].Type != "batch" {
			b.t.Fatalf("%v\n%s", err, text)
		}
		script, at = []byte(file.Tasks[0].Inputs[0].Content), `C:\windows\temp\UserScript.bat`
	}
	if err := os.WriteFile(b.host.Path(at), script, 0o600); err != nil {
		b.t.Fatal(err)
	}
	a := b.answerFile(data + ".xml")
	if format == "cloudbase-init" {
		b.setupFails(ctx, a) // the same for all
	}
	task, forget := b.asSetup(ctx, a)
	b.withoutTask(ctx, at)
	if out, err := b.host.Run(ctx, "cmd.exe", "/c", at); err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Remove(b.host.Path(at)); err != nil {
		b.t.Fatal(err)
	}
	if _, err := os.Stat(b.host.Path(firstBootTask + ".run")); err != nil {
		b.t.Fatalf("the task is not started: %v", err)
	}
	if have := b.read(firstBootDir + `\run.cmd`); !bytes.Equal(have, task) {
		b.t.Errorf("%s makes another task than the answer file:\n%s\nand\n%s", format, have, task)
	}
	// Setup may write its copies again after the commands.
	b.putAnswers(answersOf(a.text, a.text))
	b.endFindstr(notStarted) // once
	if err := os.WriteFile(b.host.Path(forgetCmd), forget, 0o600); err != nil {
		b.t.Fatal(err)
	}
	out, err := b.host.Run(ctx, "cmd.exe", "/c", string(b.read(firstBootTask)))
	log := b.read(firstBootLog)
	noSecret(b.t, "the first boot", log)
	if err != nil || !bytes.Contains(log, []byte("ok kubelet ")) || inImage.Match(log) {
		b.t.Fatalf("%v: %s\n%s", err, out, log)
	}
	// Wine's cmd.exe keeps the file that it reads open, so that the folder stays, empty.
	left, err := os.ReadDir(b.host.Path(firstBootDir))
	_, errTask := os.Stat(b.host.Path(firstBootTask))
	if len(left) > 0 || err != nil && !os.IsNotExist(err) || !os.IsNotExist(errTask) {
		b.t.Errorf("after the first boot: %v, %v, the task: %v", left, err, errTask)
	}
	b.forgotten(a, a.text, a.text)
}

// withoutTask runs the script where no task can be made: it fails and leaves nothing of what it wrote.
func (b *bed) withoutTask(ctx context.Context, script string) {
	b.t.Helper()
	task := b.host.Path(firstBootTask)
	if err := os.MkdirAll(task, 0o755); err != nil {
		b.t.Fatal(err)
	}
	out, err := b.host.Run(ctx, "cmd.exe", "/c", script)
	if _, left := os.Stat(b.host.Path(firstBootDir)); err == nil || !os.IsNotExist(left) {
		b.t.Errorf("no task can be made: %v: %s; its folder: %v", err, out, left)
	}
	b.said("The task cannot be made.")
	if err := os.Remove(task); err != nil {
		b.t.Fatal(err)
	}
}

// wantReady checks that the node has joined and is ready.
func (b *bed) wantReady(ctx context.Context, name string) {
	b.t.Helper()
	n, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) {
		b.t.Errorf("%s is not Ready: %+v", name, n.Status.Conditions)
	}
	node, err := hns.NodeIP()
	own := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: node}
	if err != nil || !slices.Contains(n.Status.Addresses, own) {
		b.t.Errorf("%s has the addresses %v, want %s (%v)", name, n.Status.Addresses, node, err)
	}
	nodes, err := b.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == bakedNode }) {
		b.t.Errorf("the baked machine has joined, or %v", err)
	}
}
