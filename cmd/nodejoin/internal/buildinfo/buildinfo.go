// Package buildinfo describes the build of this program: its version, and the commit that it was built from.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Info is what is known of a build.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // "" = not built in a git repository
	Date     string `json:"date,omitempty"`   // of the commit, RFC 3339 in UTC
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Of is the build of this program, which has a version.
func Of(version string) Info {
	build, _ := debug.ReadBuildInfo()
	return of(version, build)
}

func of(version string, build *debug.BuildInfo) Info {
	i := Info{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build == nil {
		return i
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Date = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}

// String is the build in one line.
func (i Info) String() string {
	parts := []string{i.Go, i.Platform}
	if i.Commit != "" {
		commit := "commit " + i.Commit[:min(12, len(i.Commit))]
		if i.Modified {
			commit += " with changes"
		}
		parts = append([]string{strings.TrimSpace(commit + " of " + i.Date)}, parts...)
	}
	return fmt.Sprintf("nodejoin %s (%s)", i.Version, strings.Join(parts, ", "))
}
