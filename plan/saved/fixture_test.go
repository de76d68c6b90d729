package saved

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/steps"
)

// TestReads01: a file that `plan --out` of 0.1 wrote for testdata/0.1 is read, and written
// back unchanged. Digests of the hosts' observed state are compared for this version only,
// because a plan of another version is refused before that.
func TestReads01(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "0.1", "site.plan"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Encode()
	if err != nil || string(again) != string(b) {
		t.Errorf("written again as %s, %v", again, err)
	}
	if len(p.Nodes) != 2 || len(p.Nodes[1].Steps) != 6 || p.Nodes[1].Steps[5].Action != steps.ActionReboot {
		t.Errorf("%+v", p)
	}
	now := *p
	now.Version = "0.2.0"
	if c := p.InputChanges(&now); len(c) != 1 || !strings.Contains(c[0], "nodejoin 0.1.0-dev; this is 0.2.0") {
		t.Errorf("%q", c)
	}
}
