package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// sshKeyLine is what an apply says of the SSH server that it has set up, with the host key.
var sshKeyLine = regexp.MustCompile(nodeName + `: its SSH server lets Administrator in\. ` +
	`For connection "ssh": host_key = "([^"]+)"`)

// wantSSHToo checks what an apply over WinRM has said of the SSH server that it set up, and that runs over SSH go on
// from there, without WinRM.
func (b *bed) wantSSHToo(ctx context.Context, said string, v variables) {
	b.t.Helper()
	key := sshKeyLine.FindStringSubmatch(said)
	if key == nil {
		b.t.Fatalf("the apply says nothing of the SSH server: %s", said)
	}
	plan := b.planOver(fmt.Sprintf(`connection "ssh" {
    host     = each.value
    user     = var.user
    host_key = %q
    identity = var.identity
  }`, key[1]))
	args := v.with(b.t, plan)
	r := mustApply(ctx, b.t, args)
	b.t.Logf("over SSH: changed %q in %.1fs", r.changed(), r.took.Seconds())
	b.wantJoined(ctx)
	wantNothing(ctx, b.t, args)
}

// wantLeft leaves with these arguments and checks that the machine is what it was before.
func (b *bed) wantLeft(ctx context.Context, args []string, before map[string]string) {
	b.t.Helper()
	began := time.Now()
	left := released(b.t).run(ctx, b.t, "leave", append([]string{"--target", nodeName}, args...), nil)
	if left.code != 0 {
		b.t.Fatalf("leave: %s", left)
	}
	b.t.Logf("left in %.1fs", time.Since(began).Seconds())
	if d := different(before, b.everything(ctx)); len(d) > 0 {
		b.t.Errorf("the machine is not what it was before the join:\n%s", strings.Join(d[:min(len(d), 60)], "\n"))
	}
}

// planOver writes the example plan with another connection.
func (b *bed) planOver(connection string) (dir string) {
	b.t.Helper()
	text := exampleText(b.t)
	if len(sshBlock.FindAll(text, -1)) != 1 {
		b.t.Fatalf("%s does not have exactly one connection block", examplePlan)
	}
	dir = b.t.TempDir()
	text = sshBlock.ReplaceAllLiteral(text, []byte(connection))
	if err := os.WriteFile(filepath.Join(dir, "plan.join.hcl"), text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return dir
}
