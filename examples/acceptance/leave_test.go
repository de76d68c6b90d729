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
// containerd holds its program. Copies of the node's tokens end with each leave, and once the Node is deleted by hand.
func TestLeaveAndRejoin(t *testing.T) {
	rounds := 2
	if text := os.Getenv("NODEJOIN_LEAVE_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("NODEJOIN_LEAVE_ROUNDS is %q", text)
		}
	}
	round := 3 * time.Minute
	if everyCall() {
		round = time.Hour
	}
	ctx, cancel := bounded(t, 7*time.Minute+time.Duration(rounds)*round)
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
		copies := copyTokens(ctx, t, b.cluster, b.host.Path(tokenFolder))
		began := time.Now()
		if leave := append([]string{"--target", nodeName}, args...); round > 0 {
			b.killedLeave(ctx, leave)
		} else if left := released(t).run(ctx, t, "leave", leave, nil); left.code != 0 {
			t.Fatalf("leave: %s", left)
		}
		t.Logf("round %d: joined in %.1fs, left in %.1fs", round+1, r.took.Seconds(), time.Since(began).Seconds())
		wantEnded(ctx, t, copies, time.Now())
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
	copies := copyTokens(ctx, t, b.cluster, b.host.Path(tokenFolder))
	forgetNode(ctx, t, b.cluster.Client.CoreV1().Nodes())
	wantEnded(ctx, t, copies, time.Now())
}

// tokenFolder has the tokens of flanneld and kube-proxy.
const tokenFolder = `C:\etc\kubernetes`

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
