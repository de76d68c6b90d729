package acceptance_test

import (
	"context"
	"os"
	"strings"
	"testing"
)

// withRuntimeConfig is the head of a plan that sets how many layers containerd fetches at once.
func withRuntimeConfig(t *testing.T, head, downloads string) string {
	t.Helper()
	const block = "runtime \"containerd\" {\n"
	if !strings.Contains(head, block) {
		t.Fatalf("the plan has no runtime:\n%s", head)
	}
	return strings.Replace(head, block, block+"  config = { plugins = { \"io.containerd.cri.v1.images\" = {\n"+
		"    max_concurrent_downloads = "+downloads+" } } }\n", 1)
}

// wantRefusedConfig: containerd itself refuses what a plan gives of its configuration. The file stays, and containerd
// runs on with it.
func (b *linuxBed) wantRefusedConfig(ctx context.Context, t *testing.T) {
	pid := func() string {
		out, err := b.machine.Run(ctx, "systemctl", "show", "--property=MainPID", "--value", "containerd")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	file := b.machine.Path("/etc/containerd/config.toml")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(before), "max_concurrent_downloads = 5") {
		t.Errorf("containerd's file lacks the value of the plan:\n%s", before)
	}
	was := pid()
	r := apply(ctx, t, writePlan(t, withRuntimeConfig(t, b.head(), `"many"`), b.linuxHost(), linuxExtras), nil)
	if r.code != 1 || r.summary == nil || len(r.summary.Hosts) != 1 || r.summary.Hosts[0].Error == nil {
		t.Fatalf("apply with a value that containerd refuses, want exit code 1: %s", r)
	}
	if e := r.summary.Hosts[0].Error; e.Step != "containerd_config" ||
		e.Summary != "the content of the file is not valid" || !strings.Contains(e.Detail, "MaxConcurrentDownloads") {
		t.Errorf("the error does not say what containerd refuses: %+v\n%s", e, r)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("containerd's file has changed: %v\n%s", err, after)
	}
	if is := pid(); is != was {
		t.Errorf("containerd was process %s, now %s", was, is)
	}
}
