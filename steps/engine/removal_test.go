package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

// former is what the upgraded plan no longer has. All of it except the file and its folder is removed before the steps
// run.
const former = `
step "file" "former_program" {
  on      = node.win
  path    = "C:\\former\\bin\\former.exe"
  content = "stand-in"
}
step "service" "former_service" {
  on          = node.win
  name        = "former"
  description = "Former"
  command     = ["C:\\former\\bin\\former.exe"]
  start       = "auto"
  after       = ["former_program"]
}
step "service" "former_dependent" {
  on          = node.win
  name        = "former-dependent"
  description = "Former, too"
  command     = ["C:\\former\\bin\\former.exe"]
  environment = ["TOKEN=tell-nobody"]
  start       = "auto"
  depends_on  = ["former"]
  after       = ["former_service"]
}
step "registry" "former_value" {
  on     = node.win
  key    = "HKLM\\SOFTWARE\\theirs"
  name   = "v"
  type   = "dword"
  number = 7
}
step "env" "former_variable" {
  on    = node.win
  name  = "FORMER"
  value = "x"
}
step "reserved_ports" "former_ports" {
  on       = node.win
  protocol = "tcp"
  first    = 30000
  last     = 32767
}
step "firewall_rule" "former_rule" {
  on        = node.win
  name      = "former"
  direction = "in"
  action    = "allow"
  protocol  = "tcp"
  ports     = "9999"
}
`

// lessening is like upgradable, with a new plan that also drops former.
func lessening(t *testing.T) (*world, map[string]string) {
	w := newWorld(t)
	w.one = true
	h, dir := w.box()
	seed(t, h)
	w.kubernetes("1.35.4")
	w.add(former)
	w.mustConverge()
	before := kept(snapshot(t, dir))
	w.upgradeTo("1.36.3", true)
	w.replace(former, "")
	return w, before
}

// replace replaces a literal text.
func (w *world) replace(text, with string) {
	w.t.Helper()
	w.edit(regexp.QuoteMeta(text), with)
}

// TestRollbackRestoresWhatWasRemoved: a rollback restores what the new plan dropped and what was removed before the
// upgrade failed, also if a run was interrupted on the way. The upgrade with a fixed plan removes it.
func TestRollbackRestoresWhatWasRemoved(t *testing.T) {
	first, before := lessening(t)
	w := first.copy(t)
	_, sum := w.apply(-1)
	w.mustBeBack(sum, before)
	if removed := sum.Hosts[0].Removed; len(removed) > 0 {
		t.Errorf("reported as removed, and rolled back: %+v", removed)
	}
	step := int64(4)
	if testing.Short() {
		step = 13
	}
	for n := int64(0); n < 40; n += step {
		t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
			t.Parallel()
			again := first.copy(t)
			again.apply(n)
			_, sum := again.apply(-1)
			again.mustBeBack(sum, before)
		})
	}
	w.upgradeTo("1.36.3", false)
	w.mustConverge()
	w.wantVersion("win-1", "1.36.3")
	w.hasNothingFormer()
}

// TestDrainBeforeACarrierIsRemoved: if the plan drops the runtime that holds the Node's pods, the Node is drained
// before the service is removed and accepts pods again in the end. Pods that cannot be evicted stop the run before
// anything is removed.
func TestDrainBeforeACarrierIsRemoved(t *testing.T) {
	w := newWorld(t)
	from, to := planOf("windows", "old", "docker"), planOf("windows", "old")
	if err := w.applied(from); err != nil {
		t.Fatal(err)
	}
	add := func(p kube.Pod) {
		t.Helper()
		if err := w.cluster().AddPod(t.Context(), "win-1", p, ""); err != nil {
			t.Fatal(err)
		}
	}
	add(kube.Pod{Namespace: "d", Name: "web", Controller: "ReplicaSet"})
	add(kube.Pod{Namespace: "d", Name: "bare"})
	w.write(to)
	_, before := w.box()
	untouched := kept(snapshot(t, before))
	_, sum := w.apply(-1)
	if e := steps.AsError(sum.Hosts[0].Err); e == nil || e.Summary != "pods block the drain" {
		t.Fatalf("have %v", sum.Hosts[0].Err)
	}
	if d := cmp.Diff(untouched, kept(snapshot(t, before))); d != "" {
		t.Errorf("the machine was changed (-before +after):\n%s", d)
	}
	w.drain.Force = true
	if i := w.check().Hosts[0].Interruption; i == nil || !slices.Contains(i.Services, "docker") || len(i.Evict) != 2 {
		t.Errorf("the interruption is %+v", i)
	}
	var order []string
	w.heard = func(e event.Event) {
		s, ok := e.(event.StepStarted)
		if !ok || !slices.Contains([]string{"cordon", "drain", "kubelet", "service:docker", "uncordon"}, s.Step) {
			return
		}
		order = append(order, s.Step)
		pods, err := w.cluster().Pods(t.Context(), "win-1")
		if drained := err == nil && len(pods) == 0; s.Step == "kubelet" && (!drained || !w.node("win-1").Unschedulable) {
			t.Errorf("the kubelet goes over to containerd while the Node has %v (%v): %+v", pods, err, w.node("win-1"))
		}
	}
	w.mustConverge()
	w.heard = nil
	// The kubelet depends on docker until its own step has run, and it never runs beside another runtime's service.
	// docker is stopped before that step and unregistered after it.
	if want := []string{"cordon", "drain", "service:docker", "kubelet", "service:docker"}; !slices.Equal(order, want) {
		t.Errorf("in the order %q, want %q", order, want)
	}
	if n := w.node("win-1"); n.Unschedulable || !n.Ready {
		t.Errorf("the Node in the end: %+v", n)
	}
	w.mustBeQuiet()
}

// TestDockerDataIsKept: the data folder of docker stays by choice when the plan no longer has docker, also where an
// earlier plan did not keep it; its service and programs go. A plan that does not keep it removes it.
func TestDockerDataIsKept(t *testing.T) {
	for _, engine := range []string{"docker", "mcr"} {
		for _, last := range []string{"", "keep = true", "keep = false"} {
			t.Run(engine+" "+last, bubble(func(t *testing.T) {
				w := newWorld(t)
				w.downgrade = true
				with := func(text string) drawn {
					d := planOf("windows", "old", engine)
					d.parts = append(d.parts, choice{name: "kept", in: map[string]string{"runtime " + engine: text}})
					return d
				}
				for _, text := range []string{"", "keep = true", last} {
					if err := w.applied(with(text)); err != nil {
						t.Fatal(err)
					}
				}
				const image = `C:\ProgramData\docker\image\layer`
				err := open(t, w).WriteFile(t.Context(), image, strings.NewReader("x"), host.WriteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if err := w.applied(planOf("windows", "old")); err != nil {
					t.Fatal(err)
				}
				if err := w.quiet(); err != nil {
					t.Error(err)
				}
				keep := last == "keep = true"
				for path, want := range map[string]bool{image: keep, `C:\Program Files\docker\dockerd.exe`: false,
					`C:\ProgramData\docker\config`: false} {
					if there, err := host.Exists(t.Context(), open(t, w), path); err != nil || there != want {
						t.Errorf("%s is there: %v (%v), want %v", path, there, err, want)
					}
				}
				if _, err := open(t, w).Service(t.Context(), "docker"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the service docker: %v", err)
				}
				if err := leaves(w); err != nil {
					t.Fatal(err)
				}
				if there, err := host.Exists(t.Context(), open(t, w), image); err != nil || there != keep {
					t.Errorf("after the leave, %s is there: %v (%v), want %v", image, there, err, keep)
				}
			}))
		}
	}
}

// TestDrainBeforeANetworkIsRemoved: a change of the backend or the VNI removes the HNS network of the Node's pods, so
// they are evicted first.
func TestDrainBeforeANetworkIsRemoved(t *testing.T) {
	for _, to := range []string{"host-gw", "vni"} {
		t.Run(to, func(t *testing.T) {
			w := newWorld(t)
			if err := w.applied(planOf("windows")); err != nil {
				t.Fatal(err)
			}
			web := kube.Pod{Namespace: "d", Name: "web", Controller: "ReplicaSet"}
			if err := w.cluster().AddPod(t.Context(), "win-1", web, ""); err != nil {
				t.Fatal(err)
			}
			w.write(planOf("windows", to))
			i := w.check().Hosts[0].Interruption
			if i == nil || !slices.Equal(i.Networks, []string{"flannel.4096"}) || !slices.Equal(i.Evict, []string{"d/web"}) {
				t.Errorf("the interruption is %+v", i)
			}
			var order []string
			w.heard = func(e event.Event) {
				s, ok := e.(event.StepStarted)
				if ok && slices.Contains([]string{"cordon", "drain", "flanneld", "joined"}, s.Step) {
					order = append(order, s.Step)
				}
			}
			w.mustConverge()
			w.heard = nil
			if want := []string{"cordon", "drain", "flanneld", "joined"}; !slices.Equal(order, want) {
				t.Errorf("in the order %q, want %q", order, want)
			}
			if n := w.node("win-1"); n.Unschedulable || !n.Ready {
				t.Errorf("the Node in the end: %+v", n)
			}
			w.mustBeQuiet()
		})
	}
}

// TestRemovalOverAReboot: what is removed before the steps is gone when the plan reboots the machine. The run after
// the boot, on the machine or from elsewhere, removes the rest, and the run after that finds no changes.
func TestRemovalOverAReboot(t *testing.T) {
	for _, self := range []bool{true, false} {
		t.Run(fmt.Sprintf("self=%v", self), func(t *testing.T) {
			w := newWorld(t)
			w.one = true
			w.add(former)
			w.mustConverge()
			w.replace(former, "")
			w.says(`page_file = 8096
	reboot = "auto"`)
			before := w.bootTime()
			if !self {
				w.mustConverge()
				w.hasNothingFormer()
				return
			}
			w.self, w.resume = "win-1", leaveResume
			s, sum := w.applySelf()
			if h := w.pendingReboot(sum, "the page file"); !h.GoesDown || len(h.Removed) == 0 {
				t.Errorf("it goes down: %v; removed %+v", h.GoesDown, h.Removed)
			}
			h, _ := w.box()
			if _, err := h.Service(t.Context(), "former"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("service former: %v", err)
			}
			if err := s.RebootSelf(t.Context()); err != nil || !w.bootTime().After(before) {
				t.Fatalf("%v; booted %v, before %v", err, w.bootTime(), before)
			}
			w.mustConverge()
			w.wantJoined("win-1")
			if _, err := h.Service(t.Context(), "resume"); err != nil {
				t.Errorf("the run removed the service that it may be: %v", err)
			}
			w.hasNothingFormer()
		})
	}
}

// hasNothingFormer checks that nothing of former is left and that there are no changes.
func (w *world) hasNothingFormer() {
	w.t.Helper()
	w.mustBeQuiet()
	_, dir := w.box()
	for name, text := range kept(snapshot(w.t, dir)) {
		if strings.Contains(strings.ToLower(name+text), "former") {
			w.t.Errorf("%s is left: %.200q", name, text)
		}
	}
}

// TestFileAndFolderTakeTurns: the next plan makes a folder with a file where the plan before had a file, and the other
// way around. The old one is removed first. A file of somebody else at such a place is refused before anything is
// changed.
func TestFileAndFolderTakeTurns(t *testing.T) {
	file := func(id, path string) string {
		return fmt.Sprintf("step \"file\" %q {\n  on = node.win\n  path = %q\n  content = \"x\"\n}\n", id, path)
	}
	folder := "step \"directory\" \"d\" {\n  on = node.win\n  path = \"C:\\\\site\"\n}\n"
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	plans := []string{file("f", `C:\site`), folder + file("g", `C:\site\deep\g`), file("f", `C:\site`),
		file("g", `C:\site\deep\g`), folder, file("f", `C:\site`)}
	for i, text := range plans {
		w.add(text)
		w.mustConverge()
		w.mustBeQuiet()
		if i < len(plans)-1 {
			w.replace(text, "")
		}
	}
	h, _ := w.box()
	if err := h.WriteFile(t.Context(), `C:\mixed`, strings.NewReader("theirs"), host.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.add(file("o", `C:\mixed\o`))
	r, sum := w.apply(-1)
	if e := steps.AsError(sum.Hosts[0].Err); e == nil || e.Summary != "a file is in the way" || e.Remedy == "" ||
		w.calls.Load() != 0 {
		t.Errorf("have %v, %d mutating calls; report %+v", e, w.calls.Load(), r.Hosts[0].Err)
	}
}

// TestChainsGoWithKubeProxy: if the plan drops kube-proxy, its chains in the packet filter are removed; those of the
// kubelet stay.
func TestChainsGoWithKubeProxy(t *testing.T) {
	w := newWorld(t)
	chains := func() (names []string) {
		t.Helper()
		h, err := sandbox.Open(t.Context(), sandbox.Config{Path: w.sandboxDir(), OS: "linux"})
		if err != nil {
			t.Fatal(err)
		}
		list, err := h.FilterChains(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			names = append(names, c.Name)
		}
		return names
	}
	if err := w.applied(planOf("linux")); err != nil {
		t.Fatal(err)
	}
	if have := chains(); !slices.Contains(have, "KUBE-SERVICES") {
		t.Fatalf("kube-proxy has made no chains: %v", have)
	}
	without := planOf("linux")
	without.parts = append(without.parts, in("proxy", "node", "kube_proxy { enabled = false }"))
	if err := w.applied(without); err != nil {
		t.Fatal(err)
	}
	have := chains()
	if slices.Contains(have, "KUBE-SERVICES") || !slices.Contains(have, "KUBE-KUBELET-CANARY") {
		t.Errorf("chains without kube-proxy: %v", have)
	}
	w.mustBeQuiet()
}
