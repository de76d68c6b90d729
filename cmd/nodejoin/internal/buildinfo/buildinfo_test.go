package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestString(t *testing.T) {
	end := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	if have := of("1.2.3", nil).String(); have != "nodejoin 1.2.3 ("+end {
		t.Errorf("without a commit: %s", have)
	}
	have := of("1.2.3", &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}}}).String()
	if have != "nodejoin 1.2.3 (commit 0123456789ab with changes of 2026-01-02T03:04:05Z, "+end {
		t.Errorf("with a commit: %s", have)
	}
}
