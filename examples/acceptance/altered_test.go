package acceptance_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// alteredToo are steps that a plan has besides the example, so that the machine has each sort of thing.
const alteredToo = `mirror { path = var.mirror }

step "directory" "site_folder" {
  path   = "C:\\site"
  access = "private"
}
step "file" "site_file" {
  path    = "C:\\site\\ours.txt"
  content = "ours\n"
  access  = "private"
}
step "env" "site_variable" {
  name  = "EXAMPLE_SITE"
  value = "a"
}
step "registry" "site_value" {
  key    = "HKLM\\SOFTWARE\\Example\\Site"
  name   = "Level"
  type   = "dword"
  number = 3
}
step "firewall_rule" "site_rule" {
  name     = "example-site"
  protocol = "tcp"
  ports    = "8080,8443"
  remote   = "192.0.2.0/24"
  program  = "C:\\site\\site.exe"
}`

// TestAlteredWindowsNode alters what a join has made of a machine: files, access, folders, properties of services,
// firewall rules, registry values, variables and networks. The next plan names each, one apply fixes all, and the
// machine is as it was, but for what others and renewed list. Several are altered at once; with NODEJOIN_PAIRS=N also
// N of them, drawn by NODEJOIN_SEED, one at a time.
func TestAlteredWindowsNode(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("NODEJOIN_PAIRS"))
	ctx, cancel := bounded(t, 10*time.Minute+time.Duration(n)*2*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	if err := b.host.AdmitSSH(ctx); err != nil { // the way in is altered, too
		t.Fatal(err)
	}
	before := b.everything(ctx)
	args := b.variables(b.host.Port()).with(t, planWith(t, `mirror { path = var.mirror }`, alteredToo))
	mustApply(ctx, t, args)
	b.pause(ctx, t, args) // the guard of the node would fix some of it
	want, modes := b.everything(ctx), b.modes()
	all := b.alterations(t, before, want)
	one := func(chosen []alteration) func(t *testing.T) {
		return func(t *testing.T) {
			now := b.everything(ctx) // a firewall rule that was made again has another id
			list := slices.DeleteFunc(b.alterations(t, before, now), func(a alteration) bool {
				return !slices.ContainsFunc(chosen, func(c alteration) bool { return c.name == a.name })
			})
			if len(list) != len(chosen) {
				t.Fatalf("%d of %d alterations are possible", len(list), len(chosen))
			}
			b.alter(ctx, t, now, list)
			b.wantSeen(ctx, t, args, list)
			r := mustApply(ctx, t, args)
			t.Logf("%d alterations, fixed in %.1fs", len(list), r.took.Seconds())
			b.wantAsJoined(ctx, t, want, modes)
			wantNothing(ctx, t, args)
		}
	}
	for i, list := range rounds(all) {
		t.Run(strconv.Itoa(i+1), one(list))
	}
	if n == 0 {
		return
	}
	seed, err := strconv.ParseUint(os.Getenv("NODEJOIN_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d, %d of %d alterations one at a time", seed, min(n, len(all)), len(all))
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:min(n, len(all))] {
		t.Run(all[i].name, one(all[i:i+1]))
	}
}

func (b *bed) pause(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	if out, code := released(t).output(ctx, t, append([]string{"pause", "--target", "node." + nodeName},
		args...)...); code != 0 {
		t.Fatalf("pause: exit code %d\n%s", code, out)
	}
}

// modes are the modes of the machine's files: Wine maps an access list to them.
func (b *bed) modes() map[string]os.FileMode {
	b.t.Helper()
	out := map[string]os.FileMode{}
	for name := range b.claims() {
		if info, err := os.Stat(b.host.Path(name.path)); name.path != "" && err == nil {
			out[name.path] = info.Mode()
		}
	}
	return out
}

// rounds puts alterations that can be made at once together. Folders with something of ours below are only altered
// one at a time.
func rounds(all []alteration) (out [][]alteration) {
	conflicts := func(a, b alteration) bool {
		return a.slot == b.slot || strings.HasPrefix(a.slot, b.slot+`\`) || strings.HasPrefix(b.slot, a.slot+`\`)
	}
next:
	for _, a := range all {
		if slices.ContainsFunc(all, func(b alteration) bool {
			return strings.HasPrefix(a.slot, "file ") && b.slot != a.slot+`\access` && strings.HasPrefix(b.slot, a.slot+`\`)
		}) {
			continue
		}
		for i := range out {
			if !slices.ContainsFunc(out[i], func(b alteration) bool { return conflicts(a, b) }) {
				out[i] = append(out[i], a)
				continue next
			}
		}
		out = append(out, []alteration{a})
	}
	return out
}

// alter makes alterations: those of the registry in one file, those of services in one call.
func (b *bed) alter(ctx context.Context, t *testing.T, joined map[string]string, list []alteration) {
	t.Helper()
	values, scm := map[string]string{}, []string{}
	for _, a := range list {
		if a.value != "" {
			now, changed := values[a.value]
			if !changed {
				now = joined["registry "+a.value]
			}
			values[a.value] = a.edit(now)
		}
		scm = append(scm, a.scm...)
	}
	if len(values) > 0 {
		b.importRegistry(ctx, t, values)
	}
	if len(scm) > 0 {
		program := goBuildIn(t, ".", "windows", "servicectl.exe", "build", "-trimpath", "./servicectl")
		const at = `C:\windows\servicectl.exe`
		b.copyIn(program, at)
		if out, err := b.host.Run(ctx, append([]string{at}, inOrder(scm)...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, a := range list {
		if a.apply == nil {
			continue
		}
		if err := a.apply(); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
	}
}

// inOrder are arguments of servicectl with the changes of properties first, then the stops, then the deletions.
// Dependencies are the last property: Wine's service manager loses them when it changes another one.
func inOrder(scm []string) (out []string) {
	last := []string{"dependencies", "stop", "delete"}
	for now := -1; now < len(last); now++ {
		for i := 0; i < len(scm); i += 3 {
			if slices.Index(last, scm[i+1]) == now {
				out = append(out, scm[i:i+3]...)
			}
		}
	}
	return out
}

func (b *bed) importRegistry(ctx context.Context, t *testing.T, values map[string]string) {
	t.Helper()
	text := "Windows Registry Editor Version 5.00\r\n"
	for full, value := range values {
		key, name, _ := strings.Cut(full, ` "`)
		text += "\r\n[" + key + "]\r\n\"" + name + "=" + value + "\r\n"
	}
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	const at = `C:\windows\altered.reg`
	if err := os.WriteFile(b.host.Path(at), wide, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := b.host.Run(ctx, "regedit", "/S", at); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// wantSeen: plan has the exit code 2 and names each alteration.
func (b *bed) wantSeen(ctx context.Context, t *testing.T, args []string, list []alteration) {
	t.Helper()
	out, code := released(t).output(ctx, t, append([]string{"plan", "--detailed-exitcode", "--json"}, args...)...)
	if code != 2 {
		t.Errorf("plan has the exit code %d, want 2", code)
	}
	var plan struct {
		Hosts []struct {
			Error any
			Steps []struct {
				Address string
				Error   any
				Change  struct {
					Action, Reason string
					Diffs          []any
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Hosts) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	changes := map[string]string{}
	for _, s := range plan.Hosts[0].Steps {
		if s.Change.Action == "" && s.Error == nil {
			continue
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		changes[strings.TrimPrefix(s.Address, "node."+nodeName+".")] = string(text)
	}
	for _, a := range list {
		if change, seen := changes[a.step]; a.step == "" || !seen || !strings.Contains(change, a.shows) {
			t.Errorf("%s: step %q shows %q, want %q in it", a.name, a.step, change, a.shows)
		}
	}
	if t.Failed() {
		t.Log(plan.Hosts[0].Error)
	}
}

// unchecked are values of a service's key that nodejoin never sets.
var unchecked = []string{`"PreshutdownTimeout"`}

// renewed are prefixes of what an apply that fixes something may leave otherwise than it was: what is written when
// programs start, and what is made again with another content.
var renewed = []string{`file var\log\`, `file var\lib\kubelet\`, `file ProgramData\containerd\`,
	`file ProgramData\nodejoin\`, `file etc\kubernetes\kubelet.conf`, `file etc\kubernetes\flannel.token`,
	`file etc\kubernetes\kube-proxy.token`, `file etc\kubernetes\nodejoin-node.token`, `hns Endpoint`, `hns LoadBalancer`,
	// another source VIP, where its reservation has gone
	`file var\lib\cni\networks\`, `file etc\kubernetes\kube-proxy.yaml`}

// wantAsJoined: the machine is as it was after the join.
func (b *bed) wantAsJoined(ctx context.Context, t *testing.T, want map[string]string, modes map[string]os.FileMode) {
	t.Helper()
	for _, line := range different(byRule(want), byRule(b.everything(ctx))) {
		if !slices.ContainsFunc(renewed, func(p string) bool { return strings.HasPrefix(line, p) }) &&
			!slices.ContainsFunc(unchecked, func(v string) bool { return strings.Contains(line, v) }) {
			t.Errorf("not as it was joined: %s", line)
		}
	}
	for path, mode := range b.modes() {
		if was, there := modes[path]; there && was&0o007 != mode&0o007 {
			t.Errorf("%s has the mode %s, had %s", path, mode, was)
		}
	}
	b.wantJoined(ctx)
}

// byRule has firewall rules by their text: one that is made again has another id.
func byRule(all map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range all {
		if strings.HasPrefix(name, rulesOf) {
			name = "rule " + value
		}
		out[name] = value
	}
	return out
}
