package acceptance_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLeaveAndRejoin: a leave restores the machine to its state before the join, except for what leaveKeeps
// lists: files, services, registry, firewall, HNS objects. The Node is gone. The machine then joins and leaves
// again, twice or NODEJOIN_LEAVE_ROUNDS times. All leaves but the first are killed again and again while a shim of
// containerd holds its program.
func TestLeaveAndRejoin(t *testing.T) {
	rounds := 2
	if text := os.Getenv("NODEJOIN_LEAVE_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("NODEJOIN_LEAVE_ROUNDS is %q", text)
		}
	}
	ctx, cancel := bounded(t, 7*time.Minute+time.Duration(rounds)*3*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	args := b.variables(b.host.Port()).write(t)
	b.seed(ctx)
	b.addCloudRoutes()
	before := b.everything(ctx)
	for round := range rounds {
		r := mustApply(ctx, t, args)
		b.wantJoined(ctx)
		joined := b.everything(ctx)
		if len(different(before, joined)) < 50 {
			t.Fatal("the join changed hardly anything on the machine")
		}
		began := time.Now()
		if leave := append([]string{"--target", nodeName}, args...); round > 0 {
			b.killedLeave(ctx, leave)
		} else if left := released(t).run(ctx, t, "leave", leave, nil); left.code != 0 {
			t.Fatalf("leave: %s", left)
		}
		t.Logf("round %d: joined in %.1fs, left in %.1fs", round+1, r.took.Seconds(), time.Since(began).Seconds())
		b.wantCloudRoutes("after the leave")
		after := b.everything(ctx)
		if d := different(before, after); len(d) > 0 {
			t.Fatalf("round %d: the machine is not what it was before the join:\n%s", round+1,
				strings.Join(d[:min(len(d), 60)], "\n"))
		}
		if _, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("round %d: the Node after the leave: %v", round+1, err)
		}
	}
	mustApply(ctx, t, args)
	b.wantJoined(ctx)
	wantNothing(ctx, t, args)
}

// killedLeaveAfter is the number of mutating calls after which each run of killedLeave dies. A leave makes about 180.
const killedLeaveAfter = 14

// killedLeave leaves in runs that die, the agent and nodejoin, after a few calls, until one comes to its end. While a
// leave is unfinished, status says so. The shim, which holds its program, is ended.
func (b *bed) killedLeave(ctx context.Context, args []string) {
	b.t.Helper()
	nodejoin := program(nodejoinWith(b.t, "linux", "crashtest"))
	shim := b.startShim(ctx)
	var calls []string
	for {
		b.crashAfter(killedLeaveAfter)
		r := nodejoin.run(ctx, b.t, "leave", args, func(e streamEvent, controller *os.Process) {
			// The connection breaks, too, when the virtual switch goes.
			if e.Type == "host_state" && e.State == "reconnecting" && b.crashed() {
				controller.Kill()
			}
		})
		if r.code == 0 {
			break
		}
		if r.code != -1 {
			b.t.Fatalf("leave after %d that were killed: %s", len(calls), r)
		}
		calls = append(calls, b.wantCrashed())
		if err := os.Remove(b.host.Path(dataDir + `\crashed`)); err != nil {
			b.t.Fatal(err)
		}
		if len(calls) > 1 {
			continue
		}
		out, code := released(b.t).status(ctx, b.t, args)
		if code == 0 || !strings.Contains(out, "unfinished") || strings.Contains(out, "drifted") {
			b.t.Errorf("status of a leave that was killed has exit code %d:\n%s", code, out)
		}
	}
	b.t.Logf("leaves were killed after %s", strings.Join(calls, ", "))
	if len(calls) < 5 {
		b.t.Errorf("only %d leaves were killed", len(calls))
	}
	select {
	case <-shim:
	case <-ctx.Done():
		b.t.Error("the shim still runs")
	}
	// The order of the last run, in nodejoin's folder, is the test's.
	if err := errors.Join(os.Remove(b.host.Path(dataDir+`\crash-after`)), os.Remove(b.host.Path(dataDir))); err != nil {
		b.t.Error(err)
	}
}

// startShim starts containerd's shim as containerd does for a pod. It waits for its options, which do not come. The
// channel is closed when it has ended.
func (b *bed) startShim(ctx context.Context) <-chan struct{} {
	b.t.Helper()
	const folder = `C:\Program Files\containerd\`
	cmd := b.host.Command(ctx, folder+"containerd-shim-runhcs-v1.exe", "-namespace", "k8s.io", "-address",
		`\\.\pipe\containerd-containerd`,
		"-publish-binary", folder+"containerd.exe", "-id", strings.Repeat("5", 64), "serve",
		"-socket", `\\.\pipe\containerd-shim-test`, "-is-sandbox")
	out, err := os.Create(filepath.Join(b.dir, "shim.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	options, err := cmd.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
		_ = options.Close()
	}()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return ended
}

// seed creates objects that do not belong to nodejoin beside those that do.
func (b *bed) seed(ctx context.Context) {
	b.t.Helper()
	for path, text := range map[string]string{`C:\opt\cni\bin\theirs.exe`: "theirs", `C:\var\log\theirs.log`: "theirs",
		`C:\etc\cni\net.d\99-theirs.conf`: "{}", `C:\ProgramData\theirs.txt`: "x"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(b.host.Path(path)), 0o755),
			os.WriteFile(b.host.Path(path), []byte(text), 0o644)); err != nil {
			b.t.Fatal(err)
		}
	}
	const environment = `HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment`
	for _, argv := range [][]string{
		{"reg.exe", "add", `HKLM\SOFTWARE\Theirs`, "/v", "value", "/d", "theirs", "/f"},
		{"reg.exe", "add", environment, "/v", "THEIRS", "/d", "x", "/f"},
		{"sc.exe", "create", "theirs", "binPath=", `C:\opt\cni\bin\theirs.exe`},
	} {
		if out, err := b.host.Run(ctx, argv...); err != nil {
			b.t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
}

// leaveKeeps are prefixes of names in everything: of what changes by itself and of what a leave may leave behind.
// Registry keys without values are not compared.
var leaveKeeps = []string{
	// Wine's own: the colours of a console, the number of services that have been started,
	// the graphics driver that is missing.
	`registry HKEY_CURRENT_USER\Console`,
	`registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\Control\ServiceCurrent`,
	`registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\Control\Video\`,
	`registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\Control\Class\{4D36E968-E325-11CE-BFC1-08002BE10318}\`,
	// containerd's folder for its own plugins is below %ProgramData%, which is
	// C:\users\Public for Wine's services; on Windows it is in C:\ProgramData\containerd.
	`file users\Public\containerd`,
}

// everything returns the state of the machine: the content of each file, each registry value (which include
// services, environment and firewall rules), and the HNS objects.
func (b *bed) everything(ctx context.Context) map[string]string {
	b.t.Helper()
	out := map[string]string{}
	root := b.host.Path(`C:\`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		name := "file " + strings.ReplaceAll(rel, "/", `\`)
		switch {
		case rel == "windows" || rel == exported: // Wine's own
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			out[name] = d.Type().String()
			return nil
		}
		text, err := os.ReadFile(path)
		out[name] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, hive := range []string{"HKLM", "HKCU"} {
		maps.Copy(out, b.registry(ctx, hive))
	}
	for _, kind := range []string{"Network", "Endpoint", "Namespace", "LoadBalancer"} {
		out["hns "+kind] = strconv.Itoa(b.network.Count(kind))
	}
	return out
}

// exported is where the registry is written for everything, below C:\.
const exported = "registry.reg"

// registry are the values of a hive as Wine's reg exports them (UTF-16, one value a
// line, long ones over several).
func (b *bed) registry(ctx context.Context, hive string) map[string]string {
	b.t.Helper()
	file := `C:\` + exported
	if text, err := b.host.Run(ctx, "reg.exe", "export", hive, file, "/y"); err != nil {
		b.t.Fatalf("%v\n%s", err, text)
	}
	raw := b.read(file)
	if err := os.Remove(b.host.Path(file)); err != nil {
		b.t.Fatal(err)
	}
	words := make([]uint16, len(raw)/2)
	for i := range words {
		words[i] = uint16(raw[2*i]) | uint16(raw[2*i+1])<<8
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(utf16.Decode(words)), "\ufeff"), "\\\r\n", "")
	out := map[string]string{}
	key := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "["):
			key = strings.Trim(line, "[]")
		case strings.HasPrefix(line, `"`), strings.HasPrefix(line, "@"):
			name, value, _ := strings.Cut(line, "=")
			out["registry "+key+" "+name] = value
		}
	}
	if len(out) == 0 {
		b.t.Fatalf("no value of %s was exported", hive)
	}
	return out
}

// different returns the names of what differs between two states.
func different(before, after map[string]string) []string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, is := before[name], after[name]
		if was == is || slices.ContainsFunc(leaveKeeps, func(k string) bool { return strings.HasPrefix(name, k) }) {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %.80q, was %.80q", name, is, was))
	}
	return out
}
