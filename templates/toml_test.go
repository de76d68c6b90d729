package templates

import (
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// A merge keeps references byte for byte and a bare one without quotes. Whole numbers are integers.
func TestMergeTOML(t *testing.T) {
	text, err := ContainerdLinux{Schema: 3, BinDirs: true, Root: "/r", State: ref("fact.state"), Address: "/a",
		Pause: "p:1", Imports: "/i", CNIBin: "/b", CNIConf: "/c", Runc: "/runc",
		SystemdCgroup: ref("fact.systemd_cgroup")}.Render()
	if err != nil {
		t.Fatal(err)
	}
	have, err := MergeTOML(text, func(m map[string]any) map[string]any {
		delete(m, "imports")
		m["debug"] = map[string]any{"level": "it's", "gid": float64(1), "share": 0.5}
		m["oom_score"] = float64(-999)
		return m
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(have, "SystemdCgroup = "+ref("fact.systemd_cgroup")+"\n") ||
		!strings.Contains(have, "state = '"+ref("fact.state")+"'\n") ||
		!strings.HasPrefix(have, "# Managed by nodejoin.\n") {
		t.Errorf("references:\n%q", have)
	}
	have = strings.ReplaceAll(strings.ReplaceAll(have, ref("fact.systemd_cgroup"), "true"), ref("fact.state"), "/s")
	var v struct {
		State   string
		Imports []string
		OOM     int `toml:"oom_score"`
		Debug   struct {
			Level string
			GID   int
			Share float64
		}
	}
	if err := toml.Unmarshal([]byte(have), &v); err != nil {
		t.Fatalf("%v:\n%s", err, have)
	}
	if v.State != "/s" || v.Imports != nil || v.OOM != -999 || v.Debug.Level != "it's" || v.Debug.GID != 1 ||
		v.Debug.Share != 0.5 {
		t.Errorf("%+v:\n%s", v, have)
	}
	for _, s := range []string{"a = \x00half", "a = [", "a = 1\na = 2\n"} {
		if out, err := MergeTOML(s, func(m map[string]any) map[string]any { return m }); err == nil {
			t.Errorf("%q: %q", s, out)
		}
	}
}
