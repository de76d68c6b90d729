package acceptance_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
)

// wantNothingLocally runs nodejoin.exe on the machine itself with the same plan and
// connection "local", and wants that it finds nothing to change.
func (b *bed) wantNothingLocally(ctx context.Context) {
	b.t.Helper()
	const dir = `C:\nodejoin-plan`
	if err := os.Mkdir(b.host.Path(dir), 0o755); err != nil {
		b.t.Fatal(err)
	}
	program := nodejoin(b.t, "windows")
	b.copyIn(program, dir+`\nodejoin.exe`)
	b.copyIn(b.cluster.Kubeconfig, dir+`\admin.kubeconfig`)
	if err := os.WriteFile(b.host.Path(dir+`\plan.join.hcl`), []byte(localPlan(b.t)), 0o644); err != nil {
		b.t.Fatal(err)
	}
	v := b.variables(b.host.Port())
	v.Kubeconfig = "admin.kubeconfig"
	v.Mirror = "Z:" + v.Mirror // the machine sees this one's files on its drive Z:
	text, err := json.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.host.Path(dir+`\bed.joinvars.json`), text, 0o644); err != nil {
		b.t.Fatal(err)
	}
	out, err := b.host.Run(ctx, dir+`\nodejoin.exe`, "apply", "--auto-approve", "--json", "--var-file", dir+`\bed.joinvars.json`, dir)
	if err != nil {
		b.t.Fatal(err)
	}
	r := readStream(b.t, strings.NewReader(onlyJSON(out)), func(streamEvent) {})
	r.stderr = out
	if r.summary == nil {
		b.t.Fatalf("no summary: %s", out)
	}
	if r.summary.Pending != 0 || r.mutations() != 0 {
		b.t.Errorf("nodejoin.exe on the machine: %d pending, %d mutating calls, want none\n%s", r.summary.Pending, r.mutations(), out)
	}
}

// onlyJSON drops what the program wrote to standard error: under Wine both streams
// go to one file.
func onlyJSON(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "{") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func (b *bed) copyIn(from, windows string) {
	b.t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.host.Path(windows), text, 0o755); err != nil {
		b.t.Fatal(err)
	}
}
