package templates

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// A merge keeps references byte for byte, and a resolved reference stays a string.
func TestMergeYAML(t *testing.T) {
	text, err := overlayProxy.Render()
	if err != nil {
		t.Fatal(err)
	}
	have, err := MergeYAML(text, func(m map[string]any) map[string]any { m["mode"] = "x: @ref1. #"; return m })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{ref("fact.management_ip"), ref("source_vip.address")} {
		if !strings.Contains(have, "'"+r+"'") {
			t.Errorf("no quoted %q in:\n%s", r, have)
		}
	}
	have = strings.ReplaceAll(strings.ReplaceAll(have, ref("fact.management_ip"), "1"), ref("source_vip.address"), "true")
	var v map[string]any
	if err := yaml.UnmarshalStrict([]byte(have), &v); err != nil {
		t.Fatal(err)
	}
	if v["bindAddress"] != "1" || v["winkernel"].(map[string]any)["sourceVip"] != "true" {
		t.Errorf("a resolved reference is not a string:\n%s", have)
	}
	if v["mode"] == nil || !strings.HasPrefix(have, "# Managed by nodejoin.\n") {
		t.Errorf("lost:\n%s", have)
	}
}

func TestMergeYAMLRefuses(t *testing.T) {
	for _, s := range []string{"a: \x00half", "a: [", "a: 1\na: 2\n"} {
		if out, err := MergeYAML(s, func(m map[string]any) map[string]any { return m }); err == nil {
			t.Errorf("merged %q:\n%s", s, out)
		}
	}
}

// A merge that changes nothing keeps the meaning of the file.
func TestMergeYAMLKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := windowsKubelet
		k.ClusterDomain = rapid.StringMatching(`[a-z0-9@.'"#:{}\\ -]{0,12}`).Draw(t, "domain")
		text, err := k.Render()
		if err != nil {
			t.Fatal(err)
		}
		out, err := MergeYAML(text, func(m map[string]any) map[string]any { return m })
		if err != nil {
			t.Fatal(err)
		}
		var have struct{ ClusterDomain string }
		if err := yaml.Unmarshal([]byte(out), &have); err != nil || have.ClusterDomain != k.ClusterDomain {
			t.Fatalf("%q became %q, %v", k.ClusterDomain, have.ClusterDomain, err)
		}
	})
}
