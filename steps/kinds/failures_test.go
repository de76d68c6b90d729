package kinds_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/preflight"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

func TestWrongDigestLeavesNothing(t *testing.T) {
	tgz := stepstest.Tarball(t, "a.exe", "aaa", "b.exe", "bbb")
	art := stepstest.Memory{"http://m/x": []byte("real"), "http://m/x.tgz": tgz, "http://m/cut.tgz": tgz[:len(tgz)/2]}
	promised := stepstest.Hex256([]byte("promised"))
	for _, c := range []struct {
		name, want, got string
		spec            steps.Spec
	}{
		{"binary", promised, stepstest.Hex256([]byte("real")),
			stepstest.Spec("binary", "s", &kinds.Binary{Source: steps.Source{URL: "http://m/x", SHA256: promised},
				Path: `C:\k\x.exe`})},
		{"binary sha512", stepstest.Hex512([]byte("promised")), stepstest.Hex512([]byte("real")),
			stepstest.Spec("binary", "s",
				&kinds.Binary{Source: steps.Source{URL: "http://m/x", SHA512: stepstest.Hex512([]byte("promised"))},
					Path: `C:\k\x.exe`})},
		{"archive", promised, stepstest.Hex256(tgz),
			stepstest.Spec("archive", "s",
				&kinds.Archive{Source: steps.Source{URL: "http://m/x.tgz", SHA256: promised}, To: `C:\k`})},
		{"truncated archive", stepstest.Hex256(tgz), stepstest.Hex256(tgz[:len(tgz)/2]),
			stepstest.Spec("archive", "s",
				&kinds.Archive{Source: steps.Source{URL: "http://m/cut.tgz", SHA256: stepstest.Hex256(tgz)}, To: `C:\k`})},
		{"archive with bytes added", stepstest.Hex256(tgz), stepstest.Hex256(append(append([]byte(nil), tgz...), "more"...)),
			stepstest.Spec("archive", "s",
				&kinds.Archive{Source: steps.Source{URL: "http://m/long.tgz", SHA256: stepstest.Hex256(tgz)}, To: `C:\k`})},
	} {
		t.Run(c.name, func(t *testing.T) {
			art["http://m/long.tgz"] = append(append([]byte(nil), tgz...), "more"...)
			h := stepstest.OpenHost(t, "windows")
			stepstest.Must(t, h.Mkdir(t.Context(), `C:\k`, ""))
			stepstest.Put(t, h, `C:\k\a.exe`, "old")
			r := stepstest.Apply(t, h, art, []steps.Spec{c.spec})
			if r.Err == nil || r.Err.Code != steps.CodeDigest || !strings.Contains(r.Err.Detail, c.want) ||
				!strings.Contains(r.Err.Detail, c.got) || !strings.Contains(r.Err.Detail, "http://m/") {
				t.Fatalf("%+v, want a digest error that names the source, %s and %s", r.Err, c.want, c.got)
			}
			left, err := h.List(t.Context(), `C:\k`)
			stepstest.Must(t, err)
			if len(left) != 1 || stepstest.Text(t, h, `C:\k\a.exe`) != "old" {
				t.Errorf("left behind: %+v", left)
			}
		})
	}
}

func TestArchiveWithoutMatch(t *testing.T) {
	tgz := stepstest.Tarball(t, "a.exe", "aaa")
	r := stepstest.Apply(t, stepstest.OpenHost(t, "windows"), stepstest.Memory{"http://m/x.tgz": tgz}, []steps.Spec{
		stepstest.Spec("archive", "s",
			&kinds.Archive{Source: steps.Source{URL: "http://m/x.tgz", SHA256: stepstest.Hex256(tgz)}, To: `C:\k`,
				Include: []string{"bin/*"}})})
	if r.Err == nil || r.Err.Code != steps.CodeInvalid || !strings.Contains(r.Err.Detail, "bin/*") {
		t.Errorf("%+v", r.Err)
	}
}

// A file that has the wanted digest is accepted, wherever it came from.
func TestBinaryWithoutRecord(t *testing.T) {
	b := []byte("program")
	for _, src := range []steps.Source{{File: "/m/x", SHA256: stepstest.Hex256(b)},
		{File: "/m/x", SHA512: stepstest.Hex512(b)}} {
		h := stepstest.OpenHost(t, "windows")
		stepstest.Put(t, h, `C:\k\x.exe`, "program")
		stepstest.Settled(t, h, stepstest.Memory{},
			[]steps.Spec{stepstest.Spec("binary", "s", &kinds.Binary{Source: src, Path: `C:\k\x.exe`})})
	}
}

func TestBlobsAreNamed(t *testing.T) {
	src := steps.Source{File: "/mirror/x.tgz", SHA256: stepstest.Hex256([]byte("x"))}
	list := []steps.Spec{stepstest.Spec("binary", "b", &kinds.Binary{Source: src, Path: `C:\k\x.exe`}),
		stepstest.Spec("archive", "a", &kinds.Archive{Source: src, To: `C:\k`})}
	reply, err := executor.NewExecutor(kinds.Catalog(), stepstest.OpenHost(t, "windows"), stepstest.Memory{},
		func(event.Event) {}).Check(t.Context(), executor.Request{Node: "n", Steps: list})
	stepstest.Must(t, err)
	for _, r := range reply.Results {
		if diff := cmp.Diff([]steps.Source{src}, r.Change.Blobs); diff != "" {
			t.Errorf("%s: %s", r.ID, diff)
		}
	}
}

// calls returns the mutating calls of an apply, without the writes of the record.
func calls(t *testing.T, h host.Host, a steps.Artifacts, list []steps.Spec) []string {
	t.Helper()
	var out []string
	stepstest.Applied(t, host.Intercept(h, func(op, subject string) error {
		if !strings.HasSuffix(subject, "record.json") {
			out = append(out, op+" "+subject)
		}
		return nil
	}), a, list)
	return out
}

// A service that nodejoin does not manage runs again after the service that it depends on was replaced, wherever the
// run was interrupted.
func TestForeignDependentRunsAgain(t *testing.T) {
	one, two := []byte("one"), []byte("two")
	art := stepstest.Memory{"http://m/1": one, "http://m/2": two}
	list := func(b []byte, url string) []steps.Spec {
		return []steps.Spec{
			stepstest.Spec("binary", "exe", &kinds.Binary{Source: steps.Source{URL: url, SHA256: stepstest.Hex256(b)},
				Path: `C:\k\base.exe`, Services: []string{"base"}}),
			stepstest.Spec("service", "base", stepstest.Service("base", `C:\k\base.exe`)),
		}
	}
	for n, done := 0, false; !done; n++ {
		h := stepstest.OpenHost(t, "windows")
		stepstest.Applied(t, h, art, list(one, "http://m/1"))
		stepstest.Put(t, h, `C:\x\other.exe`, "other")
		stepstest.Must(t,
			h.CreateService(t.Context(), host.ServiceConfig{Name: "other", Command: []string{`C:\x\other.exe`},
				Start: host.StartManual, DependsOn: []string{"base"}}))
		stepstest.Must(t, h.StartService(t.Context(), "other"))
		count := 0
		r := stepstest.Apply(t, host.Intercept(h, func(op, subject string) error {
			if count++; count > n {
				return errKilled
			}
			return nil
		}), art, list(two, "http://m/2"))
		done = r.Err == nil
		stepstest.Applied(t, h, art, list(two, "http://m/2"))
		stepstest.Settled(t, h, art, list(two, "http://m/2"))
		if svc, err := h.Service(t.Context(), "other"); err != nil || svc.State != host.ServiceRunning {
			t.Fatalf("interrupted at call %d: it is %q, %v", n+1, svc.State, err)
		}
	}
}

// What uses a file is stopped as late as possible, and dependents first.
func TestOrderOfReplacement(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	one, two := []byte("one"), []byte("two")
	art := stepstest.Memory{"http://m/1": one, "http://m/2": two}
	stepstest.Put(t, h, `C:\k\app.exe`, "app")
	app := stepstest.Service("app", `C:\k\app.exe`)
	app.DependsOn = []string{"base"}
	list := func(b []byte, url string, args ...string) []steps.Spec {
		return []steps.Spec{
			stepstest.Spec("binary", "exe", &kinds.Binary{Source: steps.Source{URL: url, SHA256: stepstest.Hex256(b)},
				Path: `C:\k\base.exe`, Services: []string{"base"}}),
			stepstest.Spec("service", "base", stepstest.Service("base", `C:\k\base.exe`, args...)),
			stepstest.Spec("service", "app", app),
		}
	}
	stepstest.Applied(t, h, art, list(one, "http://m/1"))
	if diff := cmp.Diff([]string{`update service base`, `stop service app`, `stop service base`, `start service base`,
		`start service app`},
		calls(t, h, art, list(one, "http://m/1", "-v"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`write file C:\k\base.exe.nodejoin-new`, `stop service app`, `stop service base`,
		`rename to C:\k\base.exe`,
		`start service base`, `start service app`}, calls(t, h, art, list(two, "http://m/2", "-v"))); diff != "" {
		t.Error(diff)
	}
}

// A check predicts what changes of earlier steps mean for the services and gates that depend on them.
func TestPlanForesees(t *testing.T) {
	tgz := stepstest.Tarball(t, "containerd.exe", "c")
	art := stepstest.Memory{"http://m/x.tgz": tgz}
	svc := stepstest.Service("containerd", `C:\c\containerd.exe`)
	svc.Watch = []string{`C:\c\config.toml`}
	list := func(conf string) []steps.Spec {
		return []steps.Spec{
			stepstest.Spec("archive", "unpack",
				&kinds.Archive{Source: steps.Source{URL: "http://m/x.tgz", SHA256: stepstest.Hex256(tgz)}, To: `C:\c`}),
			stepstest.Spec("file", "config", &kinds.File{Path: `C:\c\config.toml`, Content: conf}),
			stepstest.Spec("service", "containerd", svc),
			stepstest.Spec("pipe_ready", "ready", &kinds.PipeReady{Address: `\\.\pipe\containerd-containerd`,
				Service: "containerd"}),
		}
	}
	h := stepstest.OpenHost(t, "windows")
	actions := func(list []steps.Spec) (out []steps.Action, reasons []string) {
		reply, err := executor.NewExecutor(kinds.Catalog(), h, art, func(event.Event) {}).Check(t.Context(),
			executor.Request{Node: "n", Steps: list})
		stepstest.Must(t, err)
		for _, r := range reply.Results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			out, reasons = append(out, r.Change.Action), append(reasons, r.Change.Reason)
		}
		return out, reasons
	}
	have, _ := actions(list("1"))
	if diff := cmp.Diff([]steps.Action{"create", "create", "create", "wait"}, have); diff != "" {
		t.Error(diff)
	}
	stepstest.Applied(t, h, art, list("1"))
	have, _ = actions(list("1"))
	if diff := cmp.Diff([]steps.Action{"", "", "", ""}, have); diff != "" {
		t.Error(diff)
	}
	have, reasons := actions(list("2"))
	if diff := cmp.Diff([]steps.Action{"", "update", "restart", "wait"}, have); diff != "" {
		t.Error(diff)
	}
	if reasons[2] != `C:\c\config.toml changes` {
		t.Errorf("reason %q", reasons[2])
	}
	// The file that was edited since the last start is restored, so nothing was started from it.
	stepstest.Put(t, h, `C:\c\config.toml`, "edited")
	have, _ = actions(list("1"))
	if diff := cmp.Diff([]steps.Action{"", "update", "", ""}, have); diff != "" {
		t.Error(diff)
	}
	stepstest.Applied(t, h, art, list("edited")[2:])
	stepstest.Settled(t, h, art, list("edited"))
	have, reasons = actions(list("1"))
	if diff := cmp.Diff([]steps.Action{"", "update", "restart", "wait"}, have); diff != "" ||
		reasons[2] != `C:\c\config.toml changes` {
		t.Error(diff, reasons[2])
	}
}

func TestUnknownValues(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	list := []steps.Spec{
		stepstest.Spec("file", "f", &kinds.File{Path: `C:\k\a`, Content: "cidr " + steps.Ref("registered.pod_cidr")}),
		stepstest.Spec("source_vip", "vip", &kinds.SourceVIP{Dir: `C:\n`, Network: "flannel.4096",
			Subnet: steps.Ref("registered.pod_cidr")}),
		stepstest.Spec("service", "proxy",
			stepstest.Service("proxy", `C:\k\p.exe`, "--source-vip="+steps.Ref("vip.address"))),
	}
	reply, err := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {}).Check(t.Context(),
		executor.Request{Node: "n", Steps: list})
	stepstest.Must(t, err)
	for i, want := range []string{"cidr (known after registered)", "an address of (known after registered)",
		"--source-vip=(known after vip)"} {
		found := false
		for _, d := range reply.Results[i].Change.Diffs {
			found = found || strings.Contains(d.Want, want)
		}
		if !found {
			t.Errorf("%s: %+v does not show %q", list[i].ID, reply.Results[i].Change, want)
		}
	}
}

// A valid kubeconfig does not need the token, which was not minted for it.
func TestKubeconfigWithoutToken(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	ca := stepstest.TestCA(t)
	cert, key := stepstest.TestCert(t, "system:node:win-1", 48*time.Hour)
	const pki = `C:\var\lib\kubelet\pki\kubelet-client-current.pem`
	stepstest.Put(t, h, pki, cert+key)
	kubelet := "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: " +
		"\"https://192.0.2.1:6443\"}\nusers:\n- name: u\n  user: {client-certificate: " +
		"'\\var\\lib\\kubelet\\pki\\kubelet-client-current.pem', client-key: " +
		"'\\var\\lib\\kubelet\\pki\\kubelet-client-current.pem'}\ncontexts:\n- name: x\n  context: {cluster: c, " +
		"user: u}\ncurrent-context: x\n"
	stepstest.Put(t, h, `C:\k\kubelet.conf`, kubelet)
	k := kinds.Kubeconfig{Path: `C:\k\bootstrap.conf`, Server: "https://192.0.2.1:6443", CA: ca, User: "b",
		Token: steps.Ref("join_token.token"), Unless: `C:\k\kubelet.conf`}
	list := []steps.Spec{stepstest.Spec("kubeconfig", "b", &k)}
	stepstest.Settled(t, h, stepstest.Memory{}, list)

	for name, change := range map[string]func(){
		"other server": func() {
			stepstest.Put(t, h, `C:\k\kubelet.conf`, strings.ReplaceAll(kubelet, "192.0.2.1", "192.0.2.2"))
		},
		"no file": func() { stepstest.Must(t, h.Remove(t.Context(), `C:\k\kubelet.conf`)) },
		"no pem":  func() { stepstest.Must(t, h.Remove(t.Context(), pki)) },
		"no key":  func() { stepstest.Put(t, h, pki, cert) },
		"other node": func() {
			c, k := stepstest.TestCert(t, "system:node:win-2", time.Hour)
			stepstest.Put(t, h, pki, c+k)
		},
		"expired": func() { c, k := stepstest.TestCert(t, "system:node:win-1", time.Minute); stepstest.Put(t, h, pki, c+k) },
		"garbage": func() { stepstest.Put(t, h, pki, "garbage") },
	} {
		stepstest.Put(t, h, pki, cert+key)
		stepstest.Put(t, h, `C:\k\kubelet.conf`, kubelet)
		change()
		if r := stepstest.Apply(t, h, stepstest.Memory{}, list); r.Err == nil || r.Err.Summary != "value not known" {
			t.Errorf("%s: %+v, want that the token is needed", name, r.Err)
		}
	}
}

func TestTokensAreNeverShown(t *testing.T) {
	neverShown(t, "abcdef.0123456789abcdef", "abcdef.0123456789abcdef")
	own := kube.ParseBootstrapToken(certificate(t))
	_, key := own.Pair()
	lines := strings.Split(string(key), "\n")
	neverShown(t, own.Text(), lines[1])
	neverShown(t, own.Text(), base64.StdEncoding.EncodeToString(key)[40:80]) // as a kubeconfig has it
}

// neverShown: of a secret nothing shows the part.
func neverShown(t *testing.T, secret, part string) {
	t.Helper()
	list := []steps.Spec{stepstest.Spec("kubeconfig", "k",
		&kinds.Kubeconfig{Path: `C:\k\x.conf`, Server: "https://a:1", CA: stepstest.TestCA(t), User: "u", Token: secret}),
		stepstest.Spec("file", "f", &kinds.File{Path: `C:\k\s`, Content: secret, Sensitive: true})}
	h := stepstest.OpenHost(t, "windows")
	var shown strings.Builder
	x := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(e event.Event) {
		b, _ := event.Encode(e)
		shown.Write(b)
	})
	check, err := x.Check(t.Context(), executor.Request{Node: "n", Steps: list})
	stepstest.Must(t, err)
	reply, err := x.Apply(t.Context(), executor.Request{Node: "n", Steps: list})
	stepstest.Must(t, err)
	stepstest.Put(t, h, `C:\k\s`, secret+"2")
	again, err := x.Check(t.Context(), executor.Request{Node: "n", Steps: list})
	stepstest.Must(t, err)
	all := string(steps.MustArgs([]any{check, reply, again}).JSON()) + shown.String()
	if strings.Contains(all, part) {
		t.Error("the secret is shown")
	}
}

// Earlier contents are recorded for a later leave, but secrets are not copied.
func TestRecordHoldsNoSecrets(t *testing.T) {
	const secret = "abcdef.0123456789abcdef"
	h := stepstest.OpenHost(t, "windows")
	for _, p := range []string{`C:\k\x.conf`, `C:\k\s`, `C:\k\gone`} {
		stepstest.Put(t, h, p, "token: "+secret+"\n")
		stepstest.Must(t, h.SetAccess(t.Context(), p, host.AccessPrivate))
	}
	stepstest.Put(t, h, `C:\k\open`, "token: "+secret+"\n") // readable, but the plan says that it is a secret
	stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{
		stepstest.Spec("kubeconfig", "k", &kinds.Kubeconfig{Path: `C:\k\x.conf`, Server: "https://a:1",
			CA: stepstest.TestCA(t), User: "u", Token: secret}),
		stepstest.Spec("file", "s", &kinds.File{Path: `C:\k\s`, Content: "new", Access: host.AccessPrivate}),
		stepstest.Spec("file", "gone", &kinds.File{Path: `C:\k\gone`, Absent: true}),
		stepstest.Spec("file", "open", &kinds.File{Path: `C:\k\open`, Content: "other " + secret, Sensitive: true})})
	facts, err := h.Facts(t.Context())
	stepstest.Must(t, err)
	rec, err := record.Load(t.Context(), h, facts)
	stepstest.Must(t, err)
	maps.DeleteFunc(rec.Claims, func(key record.Key, _ record.Claim) bool { return record.Own(facts, key) })
	if len(rec.Claims) != 4 {
		t.Errorf("%d claims, want 4", len(rec.Claims))
	}
	for key, o := range rec.Claims {
		var previous struct {
			Content []byte
			SHA256  string
		}
		stepstest.Must(t, json.Unmarshal(o.Previous, &previous))
		if len(previous.Content) > 0 || previous.SHA256 == "" {
			t.Errorf("%s: the record holds %s, want a digest", key, o.Previous)
		}
	}
}

func TestPreflightSaysWhatWasSeen(t *testing.T) {
	r := stepstest.Apply(t, stepstest.OpenHost(t, "windows"), stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("preflight", "r", &preflight.Preflight{OS: "linux", Arch: "arm64",
			MinBuild: "10.0.26100", MinFree: "1000TiB"})})
	for _, want := range []string{"windows", "amd64", "10.0.20348", "10.0.26100", "1000 TiB"} {
		if r.Err == nil || !strings.Contains(r.Err.Detail, want) {
			t.Errorf("%+v does not say %q", r.Err, want)
		}
	}
}

// A preflight with "only" checks what it names and nothing else.
func TestPreflightOnly(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	all := preflight.Preflight{OS: "linux", Arch: "arm64", MinFree: "1000TiB"}
	found := func(only ...string) (out []string) {
		p := all
		p.Only = only
		reply, err := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{},
			func(event.Event) {}).Check(t.Context(),
			executor.Request{Node: "n", Steps: []steps.Spec{stepstest.Spec("preflight", "p", &p)}})
		stepstest.Must(t, err)
		if r := reply.Results[0]; r.Err == nil {
			t.Errorf("only %q: no error", only)
		}
		for _, f := range reply.Results[0].Change.Findings {
			out = append(out, f.ID)
		}
		return out
	}
	if have := found("operating-system"); !slices.Equal(have, []string{"operating-system"}) {
		t.Errorf("the operating system alone: %q", have)
	}
	if have := found("disk-space", "architecture"); !slices.Equal(have, []string{"architecture", "disk-space"}) {
		t.Errorf("two: %q", have)
	}
	if have := found(); len(have) <= 3 {
		t.Errorf("all: %q", have)
	}
	r := stepstest.Apply(t, h, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("preflight", "p", &preflight.Preflight{Only: []string{"no-such"}})})
	if r.Err == nil || r.Err.Code != steps.CodeInvalid || !strings.Contains(r.Err.Detail, `"no-such"`) {
		t.Errorf("%+v", r.Err)
	}
}

// A service of the machine must exist and run.
func TestRequiredServices(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	list := []steps.Spec{stepstest.Spec("preflight", "r", &preflight.Preflight{Required: []string{"docker"},
		Only: []string{"service-missing"}})}
	refused := func(want string) {
		t.Helper()
		if r := stepstest.Apply(t, h, stepstest.Memory{}, list); r.Err == nil || !strings.Contains(r.Err.Detail,
			want) || r.Err.Remedy == "" {
			t.Errorf("%+v does not say %q, or not how to fix it", r.Err, want)
		}
	}
	refused("service docker is not registered")
	stepstest.Put(t, h, `C:\docker\dockerd.exe`, "program")
	stepstest.Must(t,
		h.CreateService(t.Context(), host.ServiceConfig{Name: "docker", Command: []string{`C:\docker\dockerd.exe`},
			Start: host.StartManual}))
	refused("service docker is stopped")
	stepstest.Must(t, h.StartService(t.Context(), "docker"))
	stepstest.Applied(t, h, stepstest.Memory{}, list)
}

// Earlier contents are kept for a later leave, and only those from before the first change.
func TestPreviousStateIsKept(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Put(t, h, `C:\k\a`, "before")
	stepstest.Must(t, h.SetMachineEnv(t.Context(), "K", "old"))
	for _, v := range []string{"1", "2"} {
		stepstest.Applied(t, h, stepstest.Memory{},
			[]steps.Spec{stepstest.Spec("file", "f", &kinds.File{Path: `C:\k\a`, Content: v}),
				stepstest.Spec("env", "e", &kinds.MachineEnv{Name: "K", Value: v}),
				stepstest.Spec("file", "g", &kinds.File{Path: `C:\k\new`, Content: v})})
	}
	facts, err := h.Facts(t.Context())
	stepstest.Must(t, err)
	rec, err := record.Load(t.Context(), h, facts)
	stepstest.Must(t, err)
	want := map[record.Key]record.Claim{
		record.File.Of(`C:\k\a`):   {Step: "f", Existed: true, Previous: []byte(`{"content":"YmVmb3Jl","size":6}`)},
		record.File.Of(`C:\k\new`): {Step: "g"},
		record.Env.Of("K"):         {Step: "e", Existed: true, Previous: []byte(`"old"`)},
	}
	for k, w := range want {
		have := rec.Claims[k]
		if have.Step != w.Step || have.Existed != w.Existed || strings.Join(strings.Fields(string(have.Previous)),
			"") != string(w.Previous) {
			t.Errorf("%s: %+v %s", k, have, have.Previous)
		}
	}
}
