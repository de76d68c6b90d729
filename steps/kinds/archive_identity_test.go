package kinds

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/record"
)

// Differences between two archives are shown by argument, not as the key of the record.
func TestIdentityDiffs(t *testing.T) {
	one := &Archive{To: `C:\k`, Strip: 3, Include: []string{"a/*.exe"}}
	one.SHA256 = "11"
	two := &Archive{To: `C:\k`, Include: []string{"a/*.exe", "b"}}
	two.SHA256 = "22"
	want := []steps.Diff{{Name: "digest", Have: "sha256:11", Want: "sha256:22"}, {Name: "strip", Have: "3"},
		{Name: "include", Have: `"a/*.exe"`, Want: `"a/*.exe" "b"`}}
	if diff := cmp.Diff(want, identityDiffs(one.identity(), two.identity())); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
	two.To = `D:\k`
	if have := identityDiffs(one.identity(), two.identity()); len(have) != 4 || have[1].Want != `D:\k` {
		t.Errorf("another folder: %v", have)
	}
	// Before another archive is unpacked it is not known which files it lacks; the plan says that such files are
	// removed.
	c := two.diff(&record.Unpacked{Digest: one.identity()}, nil, true)
	if !strings.Contains(c.Reason, "lacks are removed") {
		t.Errorf("the reason is %q", c.Reason)
	}
}
