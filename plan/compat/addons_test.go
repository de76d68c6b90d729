package compat

import (
	"strings"
	"testing"
)

func TestCheckAddon(t *testing.T) {
	for _, c := range []struct {
		name, version string
		want          Status
		assumed       bool
	}{
		{CSIProxy, "1.0.0", OK, false}, {CSIProxy, "v1.1.3", OK, false}, {CSIProxy, "1.3.0", OK, true},
		{CSIProxy, "0.2.2", Removed, false}, {CSIProxy, "x", NoVersion, false},
		{WindowsExporter, "0.27.2", OK, false}, {WindowsExporter, "0.31.3", OK, false},
		{WindowsExporter, "0.40.0", OK, true}, {WindowsExporter, "0.26.9", Removed, false},
	} {
		have := CheckAddon(c.name, c.version)
		if have.Status != c.want || (have.Assumed != "") != c.assumed ||
			have.Status == Removed && !strings.Contains(have.Instead, "or later") {
			t.Errorf("%s %s: %+v", c.name, c.version, have)
		}
	}
}
