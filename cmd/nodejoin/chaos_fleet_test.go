//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// chaosFleet is a plan and its machines.
type chaosFleet struct {
	*chaos
	name  string
	boxes int // simulated machines
	hosts []*chaosHost
	rnd   *rand.Rand

	dir            string
	round          int
	usual          time.Duration // of a run
	mu             sync.Mutex    // of the two counters
	fine, reported int
	faults         map[string]int
	now            []string       // the faults of this round
	before         map[int]string // folders of hosts before the first run
}

func (f *chaosFleet) box(i int) string {
	return filepath.Join(f.dir, ".sandbox", fmt.Sprintf("win%d", i+1))
}

func (f *chaosFleet) names() (out []string) {
	for i := range f.boxes {
		out = append(out, fmt.Sprintf("win%d", i+1))
	}
	for i := range f.hosts {
		out = append(out, fmt.Sprintf("ssh%d", i+1))
	}
	return out
}

// must ends the test with an error of the test itself.
func (f *chaosFleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Error(err)
	}
}

const theirs = "it was here before\n"

// prepare makes the plan and the initial contents of its machines.
func (f *chaosFleet) prepare() {
	f.dir, f.faults, f.usual = filepath.Join(f.root, f.name), map[string]int{}, 3*time.Second
	f.must(copyExample(os.DirFS("../../examples/quickstart/mirror"), filepath.Join(f.dir, "mirror")))
	for i := range f.boxes {
		f.must(os.MkdirAll(filepath.Join(f.box(i), "C"), 0o755))
		f.must(os.WriteFile(filepath.Join(f.box(i), "C", "theirs.txt"), []byte(theirs), 0o644))
	}
	f.before = map[int]string{}
	for i, h := range f.hosts {
		f.must(os.WriteFile(filepath.Join(h.root, "theirs.txt"), []byte(theirs), 0o644))
		f.before[i] = tree(h.root)
	}
}

// write writes the plan of a round, which wants different contents each time. full are the machines with little
// space.
func (f *chaosFleet) write(full map[int]bool) {
	var p strings.Builder
	if f.name == "join" {
		text, err := os.ReadFile("../../examples/quickstart/quickstart.join.hcl")
		f.must(err)
		locked, err := os.ReadFile("../../examples/quickstart/nodejoin.lock.hcl")
		f.must(err)
		f.must(os.WriteFile(filepath.Join(f.dir, "nodejoin.lock.hcl"), locked, 0o644))
		head, _, _ := strings.Cut(string(text), "# One block, two machines.")
		p.WriteString(head)
	}
	for i := range f.boxes {
		capacity := ""
		if full[i] {
			capacity = fmt.Sprintf("capacity = %d", 1000+f.rnd.IntN(200_000))
		}
		profile := `os = "windows"`
		if f.name == "join" {
			profile = "profile = profile.windows"
		}
		fmt.Fprintf(&p, `
node "win%[1]d" {
  %[2]s
  connection "sandbox" {
    path = %[3]q
    ip   = "198.18.0.%[1]d"
    %[4]s
  }
}
`, i+1, profile, f.box(i), capacity)
	}
	for i, h := range f.hosts {
		p.WriteString(h.node(fmt.Sprintf("ssh%d", i+1)))
	}
	sum := f.archive()
	for i := range f.boxes {
		f.steps(&p, fmt.Sprintf("win%d", i+1), `C:`, `\\`, sum)
	}
	for i, h := range f.hosts {
		f.steps(&p, fmt.Sprintf("ssh%d", i+1), h.root, `/`, sum)
	}
	f.must(os.WriteFile(filepath.Join(f.dir, "x.join.hcl"), []byte(p.String()), 0o644))
}

// steps are a machine's steps that are not part of its join.
func (f *chaosFleet) steps(p *strings.Builder, node, root, slash, sum string) {
	path := func(name string) string { return strings.ReplaceAll(root+"/"+name, "/", slash) }
	text := func(id, name, content string) {
		fmt.Fprintf(p, `
step "file" "%[1]s_%[2]s" {
  on      = node.%[1]s
  path    = "%[3]s"
  content = %[4]q
}
`, node, id, path(name), content)
	}
	round := fmt.Sprintf("round %d\n", f.round)
	text("theirs", "theirs.txt", round)
	if f.name == "join" {
		return
	}
	for i := range 6 {
		text(fmt.Sprintf("f%d", i), fmt.Sprintf("srv/own/%d/f.txt", i), strings.Repeat(round, 200))
	}
	file := ""
	if slash == "/" {
		file = fmt.Sprintf("file = %q", path("environment"))
	}
	fmt.Fprintf(p, `
step "archive" "%[1]s_app" {
  on     = node.%[1]s
  to     = "%[2]s"
  file   = "app.tar.gz"
  sha256 = %[3]q
}
step "env" "%[1]s_env" {
  on    = node.%[1]s
  name  = "NODEJOIN_ROUND"
  value = "%[4]d"
  %[5]s
}
`, node, path("srv/app"), sum, f.round, file)
}

// archive writes the archive of a round and returns its digest.
func (f *chaosFleet) archive() string {
	if f.name == "join" {
		return ""
	}
	blob := make([]byte, 300<<10)
	noise := rand.New(rand.NewPCG(uint64(f.round), 0))
	for i := range blob {
		blob[i] = byte(noise.Uint32())
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: "blob.bin", Mode: 0o644, Size: int64(len(blob))})
	_, writeErr := w.Write(blob)
	f.must(errors.Join(err, writeErr, w.Close(), z.Close()))
	f.must(os.WriteFile(filepath.Join(f.dir, "app.tar.gz"), b.Bytes(), 0o644))
	return fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))
}

// fault happens during a run, some time after its start. A lenient fault may end the run without a summary.
type fault struct {
	name    string
	lenient bool
	do      func(p *controller, ended <-chan struct{})
}

func signals(name string, lenient bool, s ...syscall.Signal) fault {
	return fault{name, lenient, func(p *controller, ended <-chan struct{}) {
		for _, s := range s {
			_ = p.Signal(s)
			after(200*time.Millisecond, ended)
		}
	}}
}

// after waits for a time, or until the run ends.
func after(d time.Duration, ended <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-ended:
	}
}

// pick chooses the faults of a round.
func (f *chaosFleet) pick() []fault {
	all := []fault{
		{name: "none"},
		signals("SIGKILL", true, syscall.SIGKILL),
		signals("SIGINT", false, syscall.SIGINT),
		signals("SIGTERM", false, syscall.SIGTERM),
		signals("SIGHUP", false, syscall.SIGHUP),
		signals("SIGINT twice", true, syscall.SIGINT, syscall.SIGINT),
		{"a second run", false, func(_ *controller, ended <-chan struct{}) {
			f.judge(f.start(nil, f.apply()...), false)
		}},
	}
	for _, h := range f.hosts {
		all = append(all, h.faults()...)
		if f.long {
			all = append(all, h.hangs())
		}
	}
	if f.long && f.faults[standing] == 0 && len(f.hosts) > 0 && f.round > 5 {
		all = []fault{f.hosts[0].stands()}
	}
	var out []fault
	f.now = nil
	for range 1 + f.rnd.IntN(3) {
		x := all[f.rnd.IntN(len(all))]
		f.faults[x.name]++
		f.now = append(f.now, x.name)
		out = append(out, x)
	}
	return out
}

func (f *chaosFleet) apply() []string {
	return []string{"apply", "--auto-approve", "--approve-removal", "--rejoin", "--json", f.dir}
}

// once is a round: a run with faults, and the checks after it.
func (f *chaosFleet) once() {
	f.round++
	full := map[int]bool{}
	for i := range f.boxes {
		switch f.rnd.IntN(12) {
		case 0:
			full[i] = true
			f.faults["disk full (simulated)"]++
		case 1:
			f.lose(i)
		}
	}
	if f.rnd.IntN(6) == 0 {
		f.leave(f.rnd.IntN(f.boxes + len(f.hosts)))
	}
	f.write(full)
	faults, lenient, signals := f.pick(), false, 0
	waits := make([]time.Duration, len(faults))
	for i, x := range faults {
		if strings.HasPrefix(x.name, "SIG") {
			signals++ // a second one stops at once
		}
		lenient = lenient || x.lenient || signals > 1
		waits[i] = time.Duration(f.rnd.Int64N(int64(f.usual)))
	}
	args := f.apply()
	if f.rnd.IntN(8) == 0 {
		args, lenient = append([]string{lostOutput}, args...), true
		f.faults["output lost"]++
	}
	o := f.start(func(p *controller, ended <-chan struct{}) {
		done := make(chan struct{})
		for i, x := range faults {
			go func() {
				defer func() { done <- struct{}{} }()
				if after(waits[i], ended); x.do != nil {
					x.do(p, ended)
				}
			}()
		}
		for range faults {
			<-done
		}
	}, args...)
	if o.code == exitOK {
		f.usual = min(max(o.took, 500*time.Millisecond), 10*time.Second)
	}
	if o.code == exitOK && args[0] == lostOutput {
		f.fails(o, "the output is lost, and nobody is told")
	}
	fine := f.judge(o, lenient)
	f.repair()
	f.write(nil)
	f.mustBe(fine)
}

// lose deletes a file that nodejoin made, or makes a service of the machine fail at its start.
func (f *chaosFleet) lose(i int) {
	if f.name == "join" && f.rnd.IntN(2) == 0 {
		f.faults["a service does not start"]++
		if os.MkdirAll(filepath.Join(f.box(i), ".sandbox"), 0o755) == nil {
			f.must(os.WriteFile(f.broken(i), []byte(`{"kubelet.exe": "exit 1"}`), 0o644))
		}
		return
	}
	f.faults["a file is lost"]++
	for _, name := range []string{"C/k/kubelet.exe", "C/srv/own/3/f.txt"} {
		if err := os.Remove(filepath.Join(f.box(i), name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			f.must(err)
		}
	}
}

func (f *chaosFleet) broken(i int) string { return filepath.Join(f.box(i), ".sandbox", "broken.json") }

// leave makes a machine leave; a signal may stop the run.
func (f *chaosFleet) leave(i int) {
	if f.round == 1 {
		return // there is no plan yet
	}
	f.faults["leave"]++
	wait := time.Duration(f.rnd.Int64N(int64(time.Second)))
	s := []syscall.Signal{0, syscall.SIGTERM, syscall.SIGKILL}[f.rnd.IntN(3)]
	o := f.start(func(p *controller, ended <-chan struct{}) {
		if after(wait, ended); s != 0 {
			_ = p.Signal(s)
		}
	}, "leave", "--auto-approve", "--json", "--target", "node."+f.names()[i], f.dir)
	if o.code != exitOK && (s == 0 || o.code != -1 && o.code != exitInterrupted) {
		f.fails(o, "leave of %s, signal %v", f.names()[i], s)
	}
	f.repair()
}

// repair ends all faults. After that no process of a machine may be left.
func (f *chaosFleet) repair() {
	for i := range f.boxes {
		_ = os.Remove(f.broken(i))
	}
	for _, h := range f.hosts {
		h.repair()
	}
}

// finish ends the test: one run without faults, a check that finds nothing, and a leave that restores all machines.
func (f *chaosFleet) finish() {
	f.round++
	f.write(nil)
	if o := f.start(nil, f.apply()...); o.code != exitOK {
		f.fails(o, "a run without faults")
		return
	}
	all := map[string]bool{}
	args := []string{"leave", "--auto-approve", "--json"}
	for _, name := range f.names() {
		all[name] = true
		args = append(args, "--target", "node."+name)
	}
	f.mustBe(all)
	if o := f.start(nil, append(args, f.dir)...); o.code != exitOK {
		f.fails(o, "leave")
	}
	f.repair()
	for i := range f.boxes {
		b, err := os.ReadFile(filepath.Join(f.box(i), "C", "theirs.txt"))
		if string(b) != theirs {
			f.t.Errorf("win%d: %q, %v", i+1, b, err)
		}
		left, _ := filepath.Glob(filepath.Join(f.box(i), "C", "*"))
		for _, path := range left {
			if name := filepath.Base(path); name == "k" || name == "srv" {
				f.t.Errorf("win%d: %s is left", i+1, name)
			}
		}
	}
	for i, h := range f.hosts {
		if now := tree(h.root); now != f.before[i] {
			f.t.Errorf("ssh%d before:\n%s\nand now:\n%s", i+1, f.before[i], now)
		}
	}
}
