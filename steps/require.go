package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"nodejoin/steps/host"
)

var requireKind = Kind{Name: "require", Place: OnHost, Doc: "a condition of the machine that must hold before anything else is done",
	New: func() any { return &Require{} }}

// Require checks facts and space; it changes nothing, and fails with what was seen.
type Require struct {
	OS       string `json:"os,omitempty" doc:"\"windows\" or \"linux\""`
	Arch     string `json:"arch,omitempty" doc:"\"amd64\" or \"arm64\""`
	MinBuild string `json:"min_build,omitempty" doc:"lowest Windows build, for example 10.0.17763"`
	Admin    bool   `json:"admin,omitempty" doc:"administrator (Linux: root) rights are needed"`
	Path     string `json:"path,omitempty" doc:"volume on which min_free is wanted"`
	MinFree  string `json:"min_free,omitempty" doc:"free space on path's volume, for example 2GiB"`
	NoSwap   bool   `json:"no_swap,omitempty" doc:"Linux: no swap space is in use, as a kubelet wants it unless told otherwise"`
	CgroupV2 bool   `json:"cgroup_v2,omitempty" doc:"Linux: the unified hierarchy of control groups, as a kubelet from 1.35 on wants it unless told otherwise"`
	// Programs are looked for where a service finds them.
	Programs []string `json:"programs,omitempty" doc:"Linux: programs that must be installed, by name"`
	// NodeNameFree: no service with this name that is not ours.
	ForeignServices []string `json:"foreign_services,omitempty" doc:"services that may exist only if nodejoin registered them"`
	Services        []string `json:"services,omitempty" doc:"services that must run, whoever registered them"`
}

// Check is an error when a condition does not hold; otherwise there is nothing to do.
func (q *Require) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	var seen, remedies []string
	add := func(what, remedy string) { seen, remedies = append(seen, what), append(remedies, remedy) }
	f := e.Facts
	if q.OS != "" && q.OS != f.OS {
		add(fmt.Sprintf("the machine runs %s, wanted is %s", f.OS, q.OS), "give the node a profile for its operating system")
	}
	if q.Arch != "" && q.Arch != f.Arch {
		add(fmt.Sprintf("the machine's architecture is %s, wanted is %s", f.Arch, q.Arch), "set the node's architecture in the plan")
	}
	if q.MinBuild != "" {
		old, err := olderBuild(f.Build, q.MinBuild)
		if err != nil {
			return Change{}, err
		}
		if old {
			add(fmt.Sprintf("the machine's build is %s, the lowest that works is %s", f.Build, q.MinBuild), "update the operating system, or plan a version that supports this build")
		}
	}
	if q.Admin && !f.Admin {
		add("the login has no administrator rights", "connect as an administrator (Linux: root)")
	}
	if q.MinFree != "" {
		want, err := parseSize(q.MinFree)
		if err != nil {
			return Change{}, err
		}
		path := or(q.Path, f.DataDir)
		have, err := r.FreeBytes(ctx, path)
		if err != nil {
			return Change{}, err
		}
		if have < want {
			add(fmt.Sprintf("%s are free on the volume of %s, wanted are %s", formatSize(have), path, formatSize(want)), "free space on that volume")
		}
	}
	if q.NoSwap && f.Swap > 0 {
		add(formatSize(f.Swap)+" of swap space are in use, and the kubelet does not start with any", "turn it off (swapoff -a, and its lines in /etc/fstab), or tell the kubelet in the plan: config = { failSwapOn = false }")
	}
	if q.CgroupV2 && f.Cgroup != "v2" {
		add(fmt.Sprintf("the machine has control groups %s, and the kubelet from 1.35 on starts with v2 only", or(f.Cgroup, "of no known version")),
			"boot with systemd.unified_cgroup_hierarchy=1, or tell the kubelet in the plan: config = { failCgroupV1 = false }")
	}
	for _, name := range q.Programs {
		found, err := installed(ctx, r, name)
		if err != nil {
			return Change{}, err
		}
		if !found {
			add(fmt.Sprintf("the program %s is not installed (%s)", name, strings.Join(programDirs, ", ")), "install it with the machine's package manager")
		}
	}
	for _, name := range q.ForeignServices {
		svc, err := r.Service(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Change{}, err
		}
		if !ours(svc, e.Record) {
			add(fmt.Sprintf("service %s is registered (%s) but not by nodejoin", name, strings.Join(svc.Command, " ")), foreignRemedy(name))
		}
	}
	for _, name := range q.Services {
		svc, err := r.Service(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			add(fmt.Sprintf("service %s is not registered", name), fmt.Sprintf("install what service %s belongs to", name))
		case err != nil:
			return Change{}, err
		case svc.State != host.ServiceRunning:
			add(fmt.Sprintf("service %s is %s", name, svc.State), fmt.Sprintf("start service %s", name))
		}
	}
	if len(seen) > 0 {
		return Change{}, &Error{Code: CodeFailed, Summary: "the machine does not fit", Detail: strings.Join(seen, "; "), Remedy: strings.Join(remedies, "; ")}
	}
	return Change{}, nil
}

// programDirs are the folders in which services find programs: the usual PATH of a
// service manager (systemd.exec(5), "Environment variables").
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// installed tells whether a program lies in one of them.
func installed(ctx context.Context, r host.Reader, name string) (bool, error) {
	for _, dir := range programDirs {
		fi, err := r.Stat(ctx, dir+"/"+name)
		if err == nil && !fi.Dir {
			return true, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}

// Apply is never reached: Check has nothing to do or fails.
func (q *Require) Apply(context.Context, host.Host, *Env, Change) (Outcome, error) {
	return Outcome{}, nil
}

// olderBuild compares builds number by number; parts that want leaves out do not count.
func olderBuild(have, want string) (bool, error) {
	h, hok := buildNumbers(have)
	w, wok := buildNumbers(want)
	if !wok {
		return false, invalid("min_build %q is not a build such as 10.0.17763", want)
	}
	if !hok {
		return false, &Error{Code: CodeFailed, Summary: "the machine does not fit", Detail: fmt.Sprintf("its build %q cannot be compared with %s", have, want)}
	}
	for i, n := range w {
		if i >= len(h) {
			return n > 0, nil
		}
		if h[i] != n {
			return h[i] < n, nil
		}
	}
	return false, nil
}

func buildNumbers(s string) ([]uint64, bool) {
	var out []uint64
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}, {"", 1}}

func parseSize(s string) (uint64, error) {
	for _, u := range sizeUnits {
		num, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil || !(f >= 0) || f*float64(u.bytes) > math.MaxInt64 {
			break
		}
		return uint64(f * float64(u.bytes)), nil
	}
	return 0, invalid("%q is not a size such as 2GiB", s)
}

func formatSize(n uint64) string {
	for _, u := range sizeUnits[:4] {
		if n >= u.bytes {
			return strconv.FormatFloat(math.Floor(float64(n)/float64(u.bytes)*10)/10, 'f', -1, 64) + " " + u.suffix
		}
	}
	return strconv.FormatUint(n, 10) + " bytes"
}
