package saved

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/plan"
	"nodejoin/plan/block"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

func sample(t testing.TB, edit func(c *plan.Compiled, h []Host, f []File)) *Plan {
	c := &plan.Compiled{Cluster: &plan.Cluster{Name: "c", Source: "a:1,1"},
		Data: []block.Data{{Address: "data.exec.a", SHA256: "1"}, {Address: "data.exec.s", Sensitive: true},
			{Address: "data.file.b", SHA256: "2"}},
		Nodes: []plan.Node{{Name: "win-1", Address: "node.win-1", OS: "windows", Steps: []steps.Spec{
			{ID: "dir", Kind: "directory", Args: steps.MustArgs(&kinds.Directory{Path: `C:\k`}), Source: "a:3,1"},
			{ID: "conf", Kind: "file", Args: steps.MustArgs(&kinds.File{Path: `C:\k\c`, Content: "hunter2", Sensitive: true}),
				After: []string{"dir"}},
			{ID: "gate", Kind: "file_ready", Args: steps.MustArgs(&kinds.FileReady{Path: `C:\k\r`})},
		}}}}
	h := []Host{{Facts: host.Facts{Hostname: "WIN-1", OS: "windows"}, Results: []steps.Result{
		{ID: "dir"}, {ID: "conf", Change: steps.Change{Action: steps.ActionUpdate,
			Diffs:   []steps.Diff{{Name: "content", Sensitive: true}},
			Digests: map[string]string{`C:\k\c`: Digest([]byte("hunter2"))}}},
		{ID: "gate", Change: steps.Change{Action: steps.ActionWait, Reason: "after 3s"}}}}}
	f := []File{{"a.join.hcl", Digest([]byte("a"))}}
	if edit != nil {
		edit(c, h, f)
	}
	p, err := Make("1.0.0", Inputs{Path: "/p"}, f, c, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestChanges(t *testing.T) {
	type edit = func(c *plan.Compiled, h []Host, f []File)
	for name, c := range map[string]struct {
		edit  edit
		input []string
		host  []string
	}{
		"nothing": {nil, nil, nil},
		"place in the plan": {func(c *plan.Compiled, _ []Host, _ []File) {
			c.Nodes[0].Steps[0].Source, c.Cluster.Source = "b:9,9", "b"
		}, nil, nil},
		"how a gate waits": {func(_ *plan.Compiled, h []Host, _ []File) {
			h[0].Results[2].Change.Reason = "after 4s"
		}, nil, nil},
		"boot time": {func(_ *plan.Compiled, h []Host, _ []File) { h[0].Facts.Admin = true }, nil, nil},
		"plan file": {func(_ *plan.Compiled, _ []Host, f []File) { f[0].SHA256 = "x" },
			[]string{"the plan file a.join.hcl was changed"}, nil},
		"plan file renamed": {func(_ *plan.Compiled, _ []Host, f []File) { f[0].Name = "b.join.hcl" },
			[]string{"the plan file a.join.hcl is gone", "the plan file b.join.hcl is new"}, nil},
		"data": {func(c *plan.Compiled, _ []Host, _ []File) {
			c.Data[0].SHA256 = "x"
			c.Data[2].Address = "data.file.c"
		}, []string{"the value of data.exec.a was changed", "data.file.b is gone", "data.file.c is new"}, nil},
		"where data is": {func(c *plan.Compiled, _ []Host, _ []File) {
			c.Data[0].Source, c.Data[0].From = "x", "y"
		}, nil, nil},
		"cluster": {func(c *plan.Compiled, _ []Host, _ []File) { c.Cluster.APIServer = "x" },
			[]string{"the settings of the cluster were changed"}, nil},
		"connection": {func(c *plan.Compiled, _ []Host, _ []File) { c.Nodes[0].Connection.Type = "ssh" },
			[]string{"node.win-1 is another machine or is connected to differently"}, nil},
		"argument": {func(c *plan.Compiled, _ []Host, _ []File) {
			c.Nodes[0].Steps[0].Args = steps.MustArgs(&kinds.Directory{Path: `C:\x`})
		}, []string{"node.win-1.dir: the plan has changed"}, nil},
		"order": {func(c *plan.Compiled, _ []Host, _ []File) { c.Nodes[0].Steps[2].After = []string{"dir"} },
			[]string{"node.win-1.gate: the plan has changed"}, nil},
		"secret": {func(c *plan.Compiled, _ []Host, _ []File) {
			c.Nodes[0].Steps[1].Args = steps.MustArgs(&kinds.File{Path: `C:\k\c`, Content: "x", Sensitive: true})
		}, nil, nil},
		"step gone": {func(c *plan.Compiled, _ []Host, _ []File) { c.Nodes[0].Steps = c.Nodes[0].Steps[:2] },
			[]string{"node.win-1.gate is gone"}, nil},
		"node new": {func(c *plan.Compiled, _ []Host, _ []File) {
			c.Nodes = append(c.Nodes, plan.Node{Name: "n", Address: "node.n"})
		}, []string{"node.n is new"}, nil},
		"host changed": {func(_ *plan.Compiled, h []Host, _ []File) {
			h[0].Results[0].Change.Action = steps.ActionCreate
		}, nil, []string{"node.win-1.dir: planned nothing to do, now create"}},
		"host done": {func(_ *plan.Compiled, h []Host, _ []File) { h[0].Results[1].Change = steps.Change{} }, nil,
			[]string{"node.win-1.conf: planned update, now nothing to do"}},
		"other difference": {func(_ *plan.Compiled, h []Host, _ []File) { h[0].Results[1].Change.Diffs[0].Name = "access" },
			nil, []string{"node.win-1.conf: its state has changed since the plan was shown"}},
		"another machine": {func(_ *plan.Compiled, h []Host, _ []File) { h[0].Facts.Hostname = "X" }, nil,
			[]string{"node.win-1: it is another machine, or its name, address or system has changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			was, now := sample(t, nil), sample(t, c.edit)
			b, err := was.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if was, err = Decode(b); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.input, was.InputChanges(now)); d != "" {
				t.Errorf("inputs: %s", d)
			}
			if c.input == nil {
				if d := cmp.Diff(c.host, was.HostChanges(now)); d != "" {
					t.Errorf("hosts: %s", d)
				}
			}
		})
	}
}

// TestNoSecret: the file contains neither a secret nor its digest.
func TestNoSecret(t *testing.T) {
	b, err := sample(t, nil).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"hunter2", Digest([]byte("hunter2"))} {
		if strings.Contains(string(b), s) {
			t.Errorf("the file contains %q", s)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, _ := sample(t, nil).Encode()
	for text, want := range map[string]string{
		"":                         "not a saved plan",
		"{}":                       "not a saved plan",
		"cluster \"x\" {":          "not a saved plan",
		string(good[:len(good)/2]): "not a saved plan",
		strings.Replace(string(good), `"format_version": "1"`, `"format_version": "2"`, 1): "this nodejoin reads",
		strings.Replace(string(good), `"files"`, `"more"`, 1):                              "damaged",
		strings.Replace(string(good), `"path": "/p"`, `"path": ""`, 1):                     "damaged",
	} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// FuzzDecode: any input is refused, or can be written and reads back the same.
func FuzzDecode(f *testing.F) {
	good, _ := sample(f, nil).Encode()
	f.Add(good)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		p.InputChanges(p)
		p.HostChanges(p)
	})
}
