package acceptance_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// snapshot returns the files of the machine, path -> content, without what changes by itself.
func (b *linuxBed) snapshot() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	// by boot.sh; programs under Wine and agents of other tests make them here
	hidden := []string{"/root/.nodejoin", "/usr/libexec/kubernetes", "/var/log/containers", "/var/log/pods"}
	ignored := []string{"/run/systemd", "/run/log", "/run/udev", "/run/lock", "/var/log/journal",
		"/var/lib/systemd", "/root/.cache"}
	walk := func(root string, lower bool, at string) {
		err := filepath.WalkDir(filepath.Join(root, at), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(path, root)
			if lower && d.Type()&fs.ModeCharDevice != 0 && slices.Contains(hidden, name) {
				return nil // it is not on the machine, whatever its origin on this one
			}
			if slices.ContainsFunc(ignored, func(i string) bool { return name == i || strings.HasPrefix(name, i+"/") }) {
				return fs.SkipDir
			}
			what, err := describe(path)
			if err != nil {
				return err
			}
			if lower {
				if same, err := describe(name); err == nil && same == what {
					return nil // copied up, and as it was
				}
			}
			all[name] = what
			return nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	walk(b.machine.Upper(), true, "/")
	for _, dir := range []string{"/run", "/var/lib", "/var/tmp", "/tmp"} {
		walk(b.machine.Path("/"), false, dir)
	}
	b.kernel(all)
	return all
}

// kernel adds to a snapshot the network interfaces, the routes, and the tables, chains and
// rules of the packet filter.
func (b *linuxBed) kernel(all map[string]string) {
	b.t.Helper()
	show := func(argv ...string) []string {
		b.t.Helper()
		out, err := b.machine.Run(b.t.Context(), argv...)
		if err != nil {
			b.t.Fatal(err)
		}
		return strings.Split(out, "\n")
	}
	for _, line := range show("ip", "-oneline", "link") {
		if f := strings.Fields(line); len(f) > 1 {
			name, _, _ := strings.Cut(f[1], "@") // behind it the number of its other end
			all["interface "+name] = "there"
		}
	}
	for _, family := range []string{"-4", "-6"} {
		for _, line := range show("ip", family, "route") {
			all["route "+strings.TrimSpace(line)] = "there"
		}
	}
	for _, line := range show("nft", "list", "tables") {
		// that iptables creates
		if f := strings.Fields(line); len(f) == 3 &&
			!slices.Contains([]string{"filter", "nat", "mangle", "raw", "security"}, f[2]) {
			all[line] = "there"
		}
	}
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		for _, line := range show(program) {
			if strings.HasPrefix(line, "-A ") || strings.HasPrefix(line, ":") && strings.Contains(line, " - ") {
				all[program+" "+line] = "there"
			}
		}
	}
}

func describe(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	what := info.Mode().String()
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return what + " -> " + to, err
	case info.Mode().IsRegular():
		text, err := os.ReadFile(path)
		return fmt.Sprintf("%s %d bytes %x", what, len(text), sha256.Sum256(text)), err
	}
	return what, nil
}

// wantSame compares two snapshots.
func wantSame(t *testing.T, before, after map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if before[path] != after[path] {
			t.Errorf("%s is %q, was %q", path, after[path], before[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[path]; !ok {
			t.Errorf("%s is gone, was %q", path, before[path])
		}
	}
}

// wantLeft runs a leave of the Linux node and checks that its machine is as before, and that copies of its tokens end.
func (b *linuxBed) wantLeft(ctx context.Context, args []string, before map[string]string) {
	b.t.Helper()
	copies := copyTokens(ctx, b.t, b.cluster, b.machine.Path("/etc/kubernetes"))
	out := released(b.t).must(ctx, b.t,
		append([]string{"leave", "--auto-approve", "--target", "node." + linuxNode}, args...)...)
	left := time.Now()
	b.t.Logf("leave:\n%s", tail(out))
	if _, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, linuxNode, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		b.t.Errorf("the Node is still there: %v", err)
	}
	wantSame(b.t, before, b.snapshot())
	wantEnded(ctx, b.t, copies, left)
}
