package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// wantNothingLocally runs nodejoin.exe on the machine itself with the same plan and connection "local", and
// checks that there is nothing to change.
func (b *bed) wantNothingLocally(ctx context.Context) {
	b.t.Helper()
	out, code := b.runLocally(ctx, b.putLocalPlan(""), "apply", "--auto-approve", "--json")
	if code != 0 {
		b.t.Fatalf("exit code %d:\n%s", code, out)
	}
	r := readStream(b.t, strings.NewReader(onlyJSON(out)), func(streamEvent) {})
	r.stderr = out
	if r.summary == nil {
		b.t.Fatalf("apply printed no summary: %s", out)
	}
	if r.summary.Pending != 0 || r.mutations() != 0 {
		b.t.Errorf("nodejoin.exe on the machine: %d pending, %d mutating calls, want none\n%s", r.summary.Pending,
			r.mutations(), out)
	}
}

// localDir is where the machine has its own plan and nodejoin.exe.
const localDir = `C:\nodejoin-plan`

// putLocalPlan copies nodejoin.exe to the machine, with a plan for the machine itself and a host block in its
// profile ("" = none), and returns the arguments that name the plan.
func (b *bed) putLocalPlan(hostBlock string) []string {
	b.t.Helper()
	if err := os.Mkdir(b.host.Path(localDir), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.copyIn(nodejoin(b.t, "windows"), localDir+`\nodejoin.exe`)
	b.copyIn(b.cluster.Kubeconfig, localDir+`\admin.kubeconfig`)
	text := profileOS.ReplaceAllString(localPlan(b.t), "$0\n"+hostBlock)
	if err := os.WriteFile(b.host.Path(localDir+`\plan.join.hcl`), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	v := b.variables(b.host.Port())
	v.Kubeconfig = "admin.kubeconfig"
	v.Mirror = "Z:" + v.Mirror // the machine sees this one's files on its drive Z:
	values, err := json.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.host.Path(localDir+`\bed.joinvars.json`), values, 0o644); err != nil {
		b.t.Fatal(err)
	}
	return []string{"--var-file", localDir + `\bed.joinvars.json`, localDir}
}

// runLocally runs a command of nodejoin.exe on the machine.
func (b *bed) runLocally(ctx context.Context, args []string, command ...string) (out string, code int) {
	b.t.Helper()
	out, err := b.host.Run(ctx, slices.Concat([]string{localDir + `\nodejoin.exe`}, command, args)...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out, exit.ExitCode()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return out, 0
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
