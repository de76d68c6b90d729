package record

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host"
)

// The text form of a key is parsed to the key again, also of names with colons.
func TestKeys(t *testing.T) {
	for text, want := range map[string]Key{
		`file:C:\k\a:b`:                       File.Of(`C:\k\a:b`),
		"env:HTTP_PROXY":                      EnvKey("", "HTTP_PROXY"),
		"env:/etc/a:b/environment:HTTP_PROXY": EnvKey("/etc/a:b/environment", "HTTP_PROXY"),
		`registry:HKLM\SOFTWARE\Tool\Text`:    RegistryValueKey(`HKLM\SOFTWARE\Tool`, "Text"),
		`registry:HKLM\SOFTWARE\Tool\`:        RegistryValueKey(`HKLM\SOFTWARE\Tool`, ""), // its default value
	} {
		have, err := ParseKey(text)
		if err != nil || have != want || have.String() != text {
			t.Errorf("%s: %#v %s, %v", text, have, have, err)
		}
	}
	if have := EnvKey("/etc/a:b/environment", "X").EnvPath("X"); have != "/etc/a:b/environment" {
		t.Errorf("the file is %q", have)
	}
	if have := EnvKey("", "X").EnvPath("X"); have != "" {
		t.Errorf("the file of a system's own variable is %q", have)
	}
	for _, value := range []string{"Text", ""} {
		if have := RegistryValueKey(`HKLM\SOFTWARE\Tool`, value).RegistryPath(value); have != `HKLM\SOFTWARE\Tool` {
			t.Errorf("the registry key of %q is %q", value, have)
		}
	}
	for _, text := range []string{"", "file", ":x"} {
		if key, err := ParseKey(text); err == nil {
			t.Errorf("%q is %#v", text, key)
		}
	}
}

// A record of version 1 is converted with everything that it holds, and the result is read
// as it was written.
func TestVersion1(t *testing.T) {
	names, err := filepath.Glob("testdata/0.1-*.json")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var old struct {
			Owned    map[string]Claim
			Settings map[string][]string
			Trial    struct{ Kept map[string]any }
			Archives map[string]Unpacked
			Starts   map[string]Start
			Digests  map[string]Stamp
		}
		if err := json.Unmarshal(b, &old); err != nil {
			t.Fatal(err)
		}
		rec, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		rec.fill()
		items := 0
		if s := rec.Snapshot; s != nil {
			items = len(s.Items) + len(s.Leftover)
		}
		settings := 0
		for plan, list := range old.Settings {
			for _, text := range list {
				key, err := parseKey1(text)
				if c, ok := rec.Claims[key]; err != nil || ok && !slices.Contains(c.Plans, plan) {
					settings++
				}
			}
		}
		if len(rec.Claims) != len(old.Owned) || items != len(old.Trial.Kept) || settings != 0 || len(rec.Fingerprints) == 0 {
			t.Errorf("%s: %d of %d claims, %d of %d items, %d settings missing", name, len(rec.Claims), len(old.Owned),
				items, len(old.Trial.Kept), settings)
		}
		if !cmp.Equal(rec.Archives, old.Archives) || !cmp.Equal(rec.Starts, old.Starts) ||
			len(rec.Digests) != len(old.Digests) {
			t.Errorf("%s: archives, starts or digests differ", name)
		}
		for key, c := range rec.Claims {
			if path := key.Name + ".nodejoin-aside"; key.Prefix == Backup && c.Detail != path {
				t.Errorf("%s: the backup of %s is at %q", name, key.Name, c.Detail)
			}
		}
		out, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(out)
		if err != nil {
			t.Fatal(err)
		}
		again.fill()
		second, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(out), string(second)); d != "" {
			t.Errorf("%s: (-converted +read again)\n%s", name, d)
		}
	}
}

// What only waited for its file to be removed still does.
func TestVersion1Dropped(t *testing.T) {
	rec, err := parse([]byte(`{"version": 1, "trial": {"node": "u", "begun": "2026-01-02T03:04:05Z", "kept": {
		"dropped:env:X": {"step": "", "blob": "aa"}, "env:Y": {"step": "s", "blob": "bb"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s := rec.Snapshot
	if len(s.Items) != 1 || !cmp.Equal(s.Leftover, []string{"aa"}) || string(s.Node) != `{"uid":"u"}` {
		t.Errorf("%+v, node %s", s, s.Node)
	}
	s.Closed = true
	rec.fill()
	rec.Begin(nil, time.Now())
	if !cmp.Equal(rec.Snapshot.Leftover, []string{"aa", "bb"}) {
		t.Errorf("the next one has left over %v", rec.Snapshot.Leftover)
	}
}

// A record of a newer nodejoin is an error, and not an empty record.
func TestNewerVersion(t *testing.T) {
	if _, err := parse([]byte(`{"version": 3}`)); err == nil {
		t.Error("it is read")
	}
}

// Claims that were made ahead stay, and are asked about again, while the machine does not answer.
func TestWithdrawWithoutAnswer(t *testing.T) {
	made, unknown := File.Of("/srv/made"), File.Of("/srv/unknown")
	rec := &Record{Claims: map[Key]Claim{made: {}, unknown: {}},
		Ahead: []Ahead{{Key: made, SHA256: "x"}, {Key: unknown, SHA256: "x"}}}
	if err := rec.Withdraw(t.Context(), silent{}); !errors.Is(err, errSilent) || len(rec.Claims) != 2 ||
		len(rec.Ahead) != 2 {
		t.Errorf("%v, %+v", err, rec)
	}
}

var errSilent = errors.New("no answer")

// silent is a machine that does not answer.
type silent struct{ host.Reader }

func (silent) Stat(context.Context, string) (host.FileInfo, error) { return host.FileInfo{}, errSilent }
