package kinds

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

func TestFileDiff(t *testing.T) {
	const p = `C:\k\a`
	sum := func(s string) map[string]string {
		b := sha256.Sum256([]byte(s))
		return map[string]string{p: hex.EncodeToString(b[:])}
	}
	text := func(have, want string) []steps.Diff {
		return []steps.Diff{{Name: "content", Have: have, Want: want, Text: true}}
	}
	for name, c := range map[string]struct {
		os   string
		file File
		have *host.File
		want steps.Change
	}{
		"absent as wanted": {"windows", File{Path: p, Absent: true}, nil, steps.Change{}},
		"removed": {"windows", File{Path: p, Absent: true}, &host.File{},
			steps.Change{Action: steps.ActionDelete, Touches: []steps.Touch{{Path: p}},
				Digests: map[string]string{p: "absent"}}},
		"created": {"windows", File{Path: p, Content: "x"}, nil,
			steps.Change{Action: steps.ActionCreate, Diffs: text("", "x"), Touches: []steps.Touch{{Path: p}},
				Digests: sum("x")}},
		"created empty": {"linux", File{Path: p, Access: host.AccessProgram}, nil,
			steps.Change{Action: steps.ActionCreate, Touches: []steps.Touch{{Path: p}}, Digests: sum("")}},
		"same": {"windows", File{Path: p, Content: "x"}, &host.File{Content: []byte("x")}, steps.Change{}},
		"differs": {"windows", File{Path: p, Content: "x"}, &host.File{Content: []byte("y")},
			steps.Change{Action: steps.ActionUpdate, Diffs: text("y", "x"), Touches: []steps.Touch{{Path: p}},
				Digests: sum("x")}},
		"longer": {"windows", File{Path: p, Content: "x"},
			&host.File{Content: []byte("x"), Size: 9, Truncated: true},
			steps.Change{Action: steps.ActionUpdate, Touches: []steps.Touch{{Path: p}}, Digests: sum("x"),
				Diffs: []steps.Diff{{Name: "content", Have: "9 bytes",
					Want: "1 bytes, sha256 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}}}},
		"sensitive": {"windows", File{Path: p, Content: "x", Sensitive: true},
			&host.File{Content: []byte("y")},
			steps.Change{Action: steps.ActionUpdate, Touches: []steps.Touch{{Path: p}},
				Diffs: []steps.Diff{{Name: "content", Sensitive: true}}}},
		"to be private": {"windows", File{Path: p, Access: host.AccessPrivate}, &host.File{},
			steps.Change{Action: steps.ActionUpdate, Diffs: []steps.Diff{{Name: "access", Have: "default", Want: "private"}}}},
		"parent is private":  {"windows", File{Path: p}, &host.File{Access: host.AccessPrivate}, steps.Change{}},
		"program on windows": {"windows", File{Path: p, Access: host.AccessProgram}, &host.File{}, steps.Change{}},
		"program on linux": {"linux", File{Path: p, Access: host.AccessProgram}, &host.File{},
			steps.Change{Action: steps.ActionUpdate, Diffs: []steps.Diff{{Name: "access", Have: "default", Want: "program"}}}},
		"not known yet": {"windows", File{Path: p, Content: steps.Ref("a.b")}, &host.File{Content: []byte("x")},
			steps.Change{Action: steps.ActionUpdate, Diffs: text("x", steps.Ref("a.b")), Touches: []steps.Touch{{Path: p}}}},
	} {
		if diff := cmp.Diff(c.want, c.file.diff(c.have, c.os)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRegistryDiff(t *testing.T) {
	dword := func(n uint64) host.RegistryValue { return host.RegistryValue{Type: "dword", Number: n} }
	one, many := dword(1), host.RegistryValue{Type: "multi_string", Strings: []string{"a", "b"}}
	qword := host.RegistryValue{Type: "qword", Number: 1}
	value := func(a steps.Action, have, want string) steps.Change {
		return steps.Change{Action: a, Diffs: []steps.Diff{{Name: "value", Have: have, Want: want}}}
	}
	for name, c := range map[string]struct {
		step Registry
		have *host.RegistryValue
		want steps.Change
	}{
		"same":       {Registry{RegistryValue: dword(1)}, &one, steps.Change{}},
		"other data": {Registry{RegistryValue: dword(2)}, &one, value(steps.ActionUpdate, "dword 1", "dword 2")},
		"other type": {Registry{RegistryValue: dword(1)}, &qword, value(steps.ActionUpdate, "qword 1", "dword 1")},
		"missing":    {Registry{RegistryValue: dword(1)}, nil, value(steps.ActionCreate, "", "dword 1")},
		"strings": {Registry{RegistryValue: many}, &one,
			value(steps.ActionUpdate, "dword 1", `multi_string ["a" "b"]`)},
		"absent":       {Registry{Absent: true}, nil, steps.Change{}},
		"to be absent": {Registry{Absent: true}, &one, value(steps.ActionDelete, "dword 1", "")},
		"not known": {Registry{RegistryValue: host.RegistryValue{Type: "string", String: steps.Ref("a.b")}}, nil,
			value(steps.ActionCreate, "", "string "+steps.Ref("a.b"))},
	} {
		if diff := cmp.Diff(c.want, c.step.diff(c.have)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, v := range map[string]host.RegistryValue{
		"no type": {}, "unknown type": {Type: "text"}, "string in dword": {Type: "dword", String: "1"},
		"number in string":  {Type: "string", Number: 1},
		"large dword":       {Type: "dword", Number: 1 << 32},
		"strings in binary": {Type: "binary", Strings: []string{"a"}}, "empty in multi_string": {Type: "multi_string",
			Strings: []string{""}},
	} {
		var e *steps.Error
		if err := (&Registry{RegistryValue: v}).validate(); !errors.As(err, &e) || e.Code != steps.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Registry{Absent: true, RegistryValue: one}).validate(); err == nil {
		t.Error("data for an absent value is taken")
	}
}

func TestServiceDiff(t *testing.T) {
	want := Service{ServiceConfig: host.ServiceConfig{Name: "s", Description: "D", Command: []string{`C:\s.exe`, "-a"},
		DependsOn: []string{"b", "a"}, Environment: []string{"B=1", "A=2"},
		Recovery: []host.RecoveryAction{{Action: "restart", Delay: 1500 * time.Microsecond}}}}
	have := func(f func(*host.Service)) *host.Service {
		s := &host.Service{ServiceConfig: want.want(), State: host.ServiceRunning, PID: 7}
		if f != nil {
			f(s)
		}
		return s
	}
	touches := []steps.Touch{{Service: "s"}}
	stopped := want
	stopped.State = host.ServiceStopped
	for name, c := range map[string]struct {
		step  Service
		have  *host.Service
		stale string
		want  steps.Change
	}{
		"as wanted": {want, have(nil), "", steps.Change{}},
		"order and default": {want,
			have(func(s *host.Service) { s.DisplayName = ""; s.DependsOn = []string{"b", "a"} }), "", steps.Change{}},
		"stopped": {want, have(func(s *host.Service) { s.State = host.ServiceStopped }), "x",
			steps.Change{Action: steps.ActionStart, Reason: "it is stopped", Touches: touches}},
		"starting": {want, have(func(s *host.Service) { s.State = host.ServiceStarting }), "",
			steps.Change{Action: steps.ActionStart, Reason: "it is starting", Touches: touches}},
		"ends again and again": {want,
			have(func(s *host.Service) { s.State, s.Restarting, s.ExitCode = host.ServiceStarting, true, 3 }), "",
			steps.Change{Action: steps.ActionRestart, Reason: "it ends with code 3 and is started again and again",
				Touches: touches}},
		"altered by hand": {want, have(func(s *host.Service) { s.Altered = "s.service was changed by hand" }),
			"s.service was changed by hand",
			steps.Change{Action: steps.ActionUpdate, Reason: "restarts: s.service was changed by hand", Touches: touches,
				Diffs: []steps.Diff{{Name: "registration", Have: "s.service was changed by hand", Want: "as nodejoin makes it"}}}},
		"stale": {want, have(nil), "config changes",
			steps.Change{Action: steps.ActionRestart, Reason: "config changes", Touches: touches}},
		"start type": {want, have(func(s *host.Service) { s.Start = host.StartManual }), "",
			steps.Change{Action: steps.ActionUpdate, Diffs: []steps.Diff{{Name: "start", Have: "manual", Want: "auto"}}}},
		"command": {want, have(func(s *host.Service) { s.Command = []string{`C:\s.exe`} }), "its command changes",
			steps.Change{Action: steps.ActionUpdate, Reason: "restarts: its command changes", Touches: touches,
				Diffs: []steps.Diff{{Name: "command", Have: `C:\s.exe`, Want: "C:\\s.exe\n-a", Text: true}}}},
		"mark taken off": {want, have(func(s *host.Service) { s.Description = "D" }), "",
			steps.Change{Action: steps.ActionUpdate,
				Diffs: []steps.Diff{{Name: "description", Have: "D", Want: "D " + steps.OwnershipMark}}}},
		"recovery": {want, have(func(s *host.Service) { s.Recovery = nil }), "",
			steps.Change{Action: steps.ActionUpdate, Diffs: []steps.Diff{{Name: "recovery", Want: "restart after 1ms"}}}},
		"to be stopped": {stopped, have(nil), "", steps.Change{Action: steps.ActionUpdate, Touches: touches,
			Diffs: []steps.Diff{{Name: "state", Have: "running", Want: "stopped"}}}},
		"stopped as wanted": {stopped, have(func(s *host.Service) { s.State = host.ServiceStopped }), "", steps.Change{}},
	} {
		if diff := cmp.Diff(c.want, c.step.diff(c.have, c.stale)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if c := want.diff(nil, ""); c.Action != steps.ActionCreate || !slices.Equal(c.Touches, touches) {
		t.Errorf("%+v", c)
	}
	if w := want.want(); w.Description != "D "+steps.OwnershipMark || w.DisplayName != "s" || w.Start != host.StartAuto {
		t.Errorf("%+v", w)
	}
	for name, s := range map[string]Service{
		"no command": {ServiceConfig: host.ServiceConfig{Name: "s"}},
		"disabled but running": {ServiceConfig: host.ServiceConfig{Name: "s", Command: []string{"x"},
			Start: host.StartDisabled}},
		"state": {ServiceConfig: host.ServiceConfig{Name: "s", Command: []string{"x"}}, State: "paused"},
	} {
		if s.validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestFirewallDiff(t *testing.T) {
	rule := host.FirewallRule{Name: "r", Direction: "in", Action: "allow", Protocol: "tcp", Ports: "1-2,3",
		Program: `C:\K\a.exe`, Enabled: true}
	kept := rule
	kept.DisplayName, kept.Program, kept.Ports = "r", `c:\k\A.EXE`, "1-2, 3"
	off := kept
	off.Enabled = false
	want := FirewallRule{FirewallRule: rule}
	if c := want.diff(&kept); !c.NoOp() {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff(steps.Change{Action: steps.ActionUpdate,
		Diffs: []steps.Diff{{Name: "enabled", Have: "false", Want: "true"}}}, want.diff(&off)); diff != "" {
		t.Error(diff)
	}
	if c := want.diff(nil); c.Action != steps.ActionCreate {
		t.Errorf("%+v", c)
	}
	gone := FirewallRule{FirewallRule: rule, Absent: true}
	if a, b := gone.diff(nil), gone.diff(&kept); !a.NoOp() || b.Action != steps.ActionDelete {
		t.Errorf("%+v, %+v", a, b)
	}
}

func TestEnvLines(t *testing.T) {
	for _, c := range []struct{ text, name, value, want string }{
		{"", "A", "1", "A=1\n"},
		{"A=1\n", "B", "2", "A=1\nB=2\n"},
		{"A=1", "B", "2", "A=1\nB=2\n"},
		{"# A=0\nexport A=\"x\"\nAB=1\nA=2\n", "A", "1", "# A=0\nA=1\nAB=1\n"},
	} {
		if have := setEnvLine(c.text, c.name, c.value, false); have != c.want {
			t.Errorf("%q: %q, want %q", c.text, have, c.want)
		}
	}
	if have := setEnvLine("A=1\nB=2\n", "A", "", true); have != "B=2\n" {
		t.Errorf("%q", have)
	}
	for text, want := range map[string]string{"A=1": "1", "export A='x y'": "x y", ` A="q" `: "q", "A=": ""} {
		if have := envValues(text, "A"); !slices.Equal(have, []string{want}) {
			t.Errorf("%q: %q", text, have)
		}
	}
}

func TestEnvLinesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"A=1", "B=2", "# note", "", "export A=3",
			"A = 4"})).Draw(t, "lines"), "\n")
		value := rapid.StringMatching(`[a-z0-9/:]{0,6}`).Draw(t, "value")
		out := setEnvLine(text, "A", value, false)
		if have := envValues(out, "A"); !slices.Equal(have, []string{value}) {
			t.Fatalf("%q gives %q", out, have)
		}
		if setEnvLine(out, "A", value, false) != out {
			t.Fatalf("%q changes again", out)
		}
		if !slices.Equal(envValues(out, "B"), envValues(text, "B")) {
			t.Fatalf("%q lost B", out)
		}
	})
}

func TestBinaryDiff(t *testing.T) {
	b := Binary{Source: steps.Source{File: "/m/x", SHA256: "aa"}, Path: "/k/x", Services: []string{"s"}}
	for name, c := range map[string]struct {
		have *binaryState
		want steps.Change
	}{
		"same": {&binaryState{digest: "aa", access: host.AccessProgram}, steps.Change{}},
		"missing": {nil, steps.Change{Action: steps.ActionCreate, Diffs: []steps.Diff{{Name: "sha256", Want: "aa"}},
			Touches: []steps.Touch{{Path: "/k/x"}}, Digests: map[string]string{"/k/x": "aa"}, Blobs: []steps.Source{b.Source}}},
		"other": {&binaryState{digest: "bb", access: host.AccessProgram},
			steps.Change{Action: steps.ActionUpdate, Diffs: []steps.Diff{{Name: "sha256", Have: "bb", Want: "aa"}},
				Touches: []steps.Touch{{Path: "/k/x"}, {Service: "s"}}, Digests: map[string]string{"/k/x": "aa"},
				Blobs: []steps.Source{b.Source}}},
		"access": {&binaryState{digest: "aa", access: ""},
			steps.Change{Action: steps.ActionUpdate, Diffs: []steps.Diff{{Name: "access", Have: "default", Want: "program"}}}},
	} {
		if diff := cmp.Diff(c.want, b.diff(c.have, "linux")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestArchiveDiff(t *testing.T) {
	a := Archive{Source: steps.Source{URL: "http://m/x.tgz", SHA256: "aa"}, To: "/k"}
	rec := record.Unpacked{Digest: a.identity(), Files: map[string]string{"/k/a": "1", "/k/b": "2"}}
	for name, c := range map[string]struct {
		step   Archive
		rec    *record.Unpacked
		have   map[string]string
		folder bool
		action steps.Action
		touch  []steps.Touch
	}{
		"same":      {a, &rec, rec.Files, true, steps.ActionNone, nil},
		"no record": {a, nil, nil, true, steps.ActionCreate, []steps.Touch{{Path: "/k"}}},
		"fresh":     {a, nil, nil, false, steps.ActionCreate, []steps.Touch{{Path: "/k"}}},
		"file edited": {a, &rec, map[string]string{"/k/a": "1", "/k/b": "9"}, true, steps.ActionUpdate,
			[]steps.Touch{{Path: "/k/b"}}},
		"file missing": {a, &rec, map[string]string{"/k/a": ""}, true, steps.ActionUpdate,
			[]steps.Touch{{Path: "/k/a"}, {Path: "/k/b"}}},
		"other archive": {Archive{Source: steps.Source{URL: a.URL, SHA256: "bb"}, To: "/k"}, &rec, rec.Files, true,
			steps.ActionUpdate, []steps.Touch{{Path: "/k"}}},
		"other selection": {Archive{Source: a.Source, To: "/k", Strip: 1}, &rec, rec.Files, true, steps.ActionUpdate,
			[]steps.Touch{{Path: "/k"}}},
	} {
		have := c.step.diff(c.rec, c.have, c.folder)
		if have.Action != c.action || !slices.Equal(have.Touches, c.touch) {
			t.Errorf("%s: %+v", name, have)
		}
	}
	a = Archive{To: `C:\k`, Strip: 1, Include: []string{"bin/*.exe"}}
	for member, want := range map[string]string{"bin/a.exe": `C:\k\a.exe`, "bin/a.txt": "", "a.exe": "",
		"bin/x/a.exe": ""} {
		if have := a.dest("windows", member); have != want {
			t.Errorf("%s: %q, want %q", member, have, want)
		}
	}
	a = Archive{To: `C:\k`, Strip: 1}
	for member, want := range map[string]string{"bin/a.exe": `C:\k\a.exe`, "a.exe": "", "bin/x/a.exe": `C:\k\x\a.exe`} {
		if have := a.dest("windows", member); have != want {
			t.Errorf("%s: %q, want %q", member, have, want)
		}
	}
}

func TestTokenEnds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	jwt := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
	}
	in := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for token, renew := range map[string]bool{
		"":                        true,
		"abcdef.0123456789abcdef": true,
		"a.%%%.c":                 true,
		jwt(`{}`):                 false, // a token that does not expire
		jwt(fmt.Sprintf(`{"exp":%d}`, in(200*time.Hour))):                             false,
		jwt(fmt.Sprintf(`{"exp":%d}`, in(100*time.Hour))):                             true,
		jwt(fmt.Sprintf(`{"exp":%d}`, in(-time.Hour))):                                true,
		jwt(fmt.Sprintf(`{"exp":%d,"iat":%d}`, in(50*time.Minute), in(-time.Minute))): false, // shortened by the API server
		jwt(fmt.Sprintf(`{"exp":%d,"iat":%d}`, in(time.Minute), in(-50*time.Minute))): true,
	} {
		if have := tokenEnds(token, now, renewBefore); (have != "") != renew {
			t.Errorf("%s: %q, want renewal: %v", token, have, renew)
		}
	}
}

func TestBesides(t *testing.T) {
	for _, c := range []struct{ os, file, path, want string }{
		{"windows", `C:\etc\k.conf`, `/var/lib/x.pem`, `C:\var\lib\x.pem`},
		{"windows", `C:\etc\k.conf`, `D:\x.pem`, `D:\x.pem`},
		{"windows", `C:\etc\k.conf`, `pki/x.pem`, `C:\etc\pki\x.pem`},
		{"linux", "/etc/k.conf", "/var/x.pem", "/var/x.pem"},
		{"linux", "/etc/k.conf", "x.pem", "/etc/x.pem"},
	} {
		if have := besides(c.os, c.file, c.path); have != c.want {
			t.Errorf("%+v: %s", c, have)
		}
	}
}

func TestSourceVIPDiff(t *testing.T) {
	a := netip.MustParseAddr
	subnet := netip.MustParsePrefix("10.244.3.0/24")
	for name, c := range map[string]struct {
		held    map[netip.Addr]bool
		action  steps.Action
		address string
		stale   int
	}{
		"none":      {nil, steps.ActionCreate, "", 0},
		"of others": {map[netip.Addr]bool{a("10.244.3.2"): false}, steps.ActionCreate, "", 0},
		"ours":      {map[netip.Addr]bool{a("10.244.3.9"): true}, steps.ActionNone, "10.244.3.9", 0},
		"outside":   {map[netip.Addr]bool{a("10.244.4.2"): true}, steps.ActionUpdate, "", 1},
		"in and outside": {map[netip.Addr]bool{a("10.244.4.2"): true, a("10.244.3.2"): true}, steps.ActionUpdate,
			"10.244.3.2", 1},
	} {
		have, stale := (&SourceVIP{}).Diff(IPStore{held: c.held}, subnet)
		if have.Action != c.action || have.Outputs["address"] != c.address || len(stale) != c.stale {
			t.Errorf("%s: %+v, %v", name, have, stale)
		}
	}
	var all []string
	for x := range usable(netip.MustParsePrefix("10.0.0.0/29")) {
		all = append(all, x.String())
	}
	if diff := cmp.Diff([]string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}, all); diff != "" {
		t.Error(diff)
	}
	for content, want := range map[string]bool{"kube-proxy\r\nsource-vip": true, "kube-proxy\nsource-vip\n": true,
		"kube-proxy": true, "kube-proxy\r\neth0": false, "": false} {
		if (&SourceVIP{}).owns(content) != want {
			t.Errorf("%q: want %v", content, want)
		}
	}
	for _, s := range []string{"", "10.0.0.0", "10.0.0.0/31"} {
		if _, err := (&SourceVIP{Network: "n", Subnet: s}).subnet(); err == nil {
			t.Errorf("subnet %q is taken", s)
		}
	}
}

func TestHNSNetwork(t *testing.T) {
	want := HNSNetworkReady{Name: "flannel.4096", Type: "overlay", VNI: 4096}
	n := host.HNSNetwork{ID: "i", Name: "flannel.4096", Type: "Overlay", VNI: 4096}
	if o, err := want.judge(n); err != nil || o.ok {
		t.Errorf("%+v, %v", o, err)
	}
	n.ManagementIP = "192.0.2.10"
	if o, err := want.judge(n); err != nil || !o.ok || o.outputs["management_ip"] != "192.0.2.10" {
		t.Errorf("%+v, %v", o, err)
	}
	n.VNI, n.Type = 5000, "L2Bridge"
	var e *steps.Error
	if _, err := want.judge(n); !errors.As(err, &e) || e.Remedy == "" || !strings.Contains(e.Detail, "5000") ||
		!strings.Contains(e.Detail, "L2Bridge") {
		t.Errorf("%v", err)
	}
}

func TestContains(t *testing.T) {
	big := strings.Repeat("x", 200_000)
	for text, want := range map[string]bool{"": false, "needle": true, big + "needle": true, big + "needl": false,
		big[:64<<10-3] + "needle" + big: true} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text),
			"halves": iotest.HalfReader(strings.NewReader(text))} {
			if have, err := contains(r, []byte("needle")); err != nil || have != want {
				t.Errorf("%s, %d bytes: %v, %v", name, len(text), have, err)
			}
		}
	}
}

func TestRequireUnits(t *testing.T) {
	for s, want := range map[string]uint64{"2GiB": 2 << 30, "1.5 MiB": 3 << 19, "10": 10, "1kB": 1000, "7B": 7} {
		if have, err := host.ParseSize(s); err != nil || have != want {
			t.Errorf("%s: %d, %v", s, have, err)
		}
	}
	for _, s := range []string{"", "GiB", "-1GiB", "2 GB B", "NaN", "1e30TiB"} {
		if n, err := host.ParseSize(s); err == nil {
			t.Errorf("%q is %d", s, n)
		}
	}
	for _, c := range []struct {
		have, want string
		old        bool
	}{{"10.0.20348", "10.0.17763", false}, {"10.0.17763", "10.0.20348", true},
		{"10.0.20348.2402", "10.0.20348", false}, {"10.0.20348", "10.0.20348.1", true}, {"10.0.9600", "10.0.17763", true}} {
		if old, err := host.OlderBuild(c.have, c.want); err != nil || old != c.old {
			t.Errorf("%+v: %v, %v", c, old, err)
		}
	}
}

func TestWillChange(t *testing.T) {
	e := &steps.Env{Facts: host.Facts{OS: "windows"}, Pending: map[steps.Touch]string{
		steps.Touch{Path: `C:\k`}.Key("windows"):          "unpack",
		steps.Touch{Service: "Kubelet"}.Key("windows"):    "kubelet",
		steps.Touch{Path: `C:\etc\a.toml`}.Key("windows"): "config",
	}}
	for touch, want := range map[steps.Touch]string{
		{Path: `C:\k\bin\x.exe`}: "unpack", {Path: `C:/K`}: "unpack", {Path: `C:\kk`}: "",
		{Path: `C:\etc\a.toml`}: "config", {Path: `C:\etc`}: "", {Path: `C:\`}: "",
		{Service: "kubelet"}: "kubelet", {Service: "KUBELET"}: "kubelet", {Service: "k"}: "",
	} {
		if have, _ := e.WillChange(touch); have != want {
			t.Errorf("%+v: %q, want %q", touch, have, want)
		}
	}
	if have := (steps.Touch{Reboot: "the feature A/B"}).Key("windows"); have.Reboot != "the feature A/B" {
		t.Errorf("a reason became %q", have.Reboot)
	}
}
