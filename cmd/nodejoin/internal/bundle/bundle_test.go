package bundle

import (
	"slices"
	"strings"
	"testing"

	"nodejoin/steps/collect"
)

// A bundle has a size limit and names the entries that it leaves out. Smaller entries still go in.
func TestBundleIsBounded(t *testing.T) {
	b := &Bundle{size: MaxSize - 10}
	b.Add("a", "eleven bytes")
	b.Add("b", "ten bytes.")
	b.Add("c", "x")
	if len(b.entries) != 1 || b.entries[0].name != "b" || b.size != MaxSize {
		t.Errorf("entries %v, size %d", b.entries, b.size)
	}
	if want := []string{"a: left out: the limit of 64 MiB is reached",
		"c: left out: the limit of 64 MiB is reached"}; !slices.Equal(b.lacks, want) {
		t.Errorf("missing: %q", b.lacks)
	}
}

// The bundle makes its entry names: a host's names cannot leave the host's folder, be hidden, or appear twice.
func TestBundleNames(t *testing.T) {
	for in, want := range map[string]string{
		"logs/C/k/kubelet.log":              "n1/logs/C/k/kubelet.log",
		"files/etc/kubernetes/kubelet.conf": "n1/files/etc/kubernetes/kubelet.conf",
		"services/kube proxy (1).json":      "n1/services/kube proxy (1).json",
		"hns/네트워크.json":                     "n1/hns/네트워크.json",
		"../../../../OUT/zipslip.txt":       "n1/_/_/_/_/OUT/zipslip.txt",
		"/etc/cron.d/x":                     "n1/etc/cron.d/x",
		`..\..\win.txt`:                     "n1/_/_/win.txt",
		`C:\Windows\x`:                      "n1/C/Windows/x",
		"a/./b//c/":                         "n1/a/b/c",
		"":                                  "n1/_",
		"..":                                "n1/_",
		"NUL/con.txt":                       "n1/_NUL/_con.txt",
		"x.txt:stream":                      "n1/x.txt/stream",
		"end. /dot.":                        "n1/end/dot",
		"a\x1b[2J\nb<|>?*\"":                "n1/a_[2J_b______",
		"-rf":                               "n1/_-rf",
		"\u202etxt.exe":                     "n1/_txt.exe",
		strings.Repeat("a", 300):            "n1/" + strings.Repeat("a", 100),
		strings.Repeat("a/", 300):           "n1/" + strings.Repeat("a/", 15) + "a",
	} {
		for _, cut := range []bool{false, true} {
			b := &Bundle{}
			b.Part("n1/", collect.Part{Name: in, Cut: cut})
			if have := b.entries[0].name; have != want {
				t.Errorf("%q, cut: %t: %q, want %q", in, cut, have, want)
			}
		}
	}
	b := &Bundle{}
	for _, want := range []string{"n1/facts.json", "n1/facts-2.json", "n1/facts-3.json"} {
		if have := b.name("n1/", "facts.json"); have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
	if have := b.name("n1/", "FACTS.json"); have != "n1/FACTS-4.json" {
		t.Errorf("%q: equal on Windows", have)
	}
	given := map[string]bool{}
	for _, said := range []string{"a.txt", "a-2.txt", "a.txt", "A.TXT", "a-2.txt", "a-3.txt", "a.txt"} {
		name := strings.ToLower(b.name("n2/", said))
		if given[name] {
			t.Errorf("%q twice", name)
		}
		given[name] = true
	}
	b = &Bundle{}
	for range 3 * maxEntries {
		b.Part("n1/", collect.Part{Name: "x"})
		b.Part("n1/", collect.Part{Name: "y", Missing: "\x1b"})
	}
	if len(b.entries) > maxEntries || len(b.lacks) > maxEntries+1 {
		t.Errorf("%d entries, %d missing", len(b.entries), len(b.lacks))
	}
}
