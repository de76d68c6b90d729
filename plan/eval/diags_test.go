package eval

import (
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// A mistake that every node of a large block shares is reported a few times, with the number of nodes.
func TestSimilarDiagnosticsAreBounded(t *testing.T) {
	d := NewDiags()
	for i := range 10000 {
		d.Fail(rangeOf("a", 3), "invalid node name", "%d is wrong.", i)
	}
	d.Fail(rangeOf("a", 1), "other", "It is wrong, too.")
	list := d.Sorted()
	if len(list) != maxSimilar+1 || d.errs != 10001 {
		t.Fatalf("%d diagnostics of %d errors", len(list), d.errs)
	}
	if list[0].Summary != "other" || !strings.HasSuffix(list[maxSimilar].Detail,
		"(There are 9990 more like this here.)") {
		t.Errorf("have %v", list)
	}
	for i := range 100 {
		name := "n" + strconv.Itoa(i)
		d.FailOn(name, rangeOf("a", 5), "unknown step", "There is no step on %q.", name)
	}
	if n := len(d.List); n != maxSimilar+2 {
		t.Errorf("%d diagnostics", n)
	}
}

func rangeOf(file string, line int) hcl.Range {
	at := hcl.Pos{Line: line, Column: 1, Byte: line * 10}
	return hcl.Range{Filename: file, Start: at, End: at}
}

func TestPassingFunctionsExist(t *testing.T) {
	table := NewScope(nil, nil).Functions()
	for name := range passing {
		if _, ok := table[name]; !ok {
			t.Errorf("passing lists %q, which is not a function", name)
		}
	}
}
