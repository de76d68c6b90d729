package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// openFolders checks the folders above those that steps close. nodejoin closes the folders that it makes on
// the way; one that was there before keeps its access.
func openFolders(ctx context.Context, s *pass) ([]observed, error) {
	var out []observed
	os := s.facts().OS
	asked := map[string]bool{} // by path key, or closed by a step
	for _, dir := range s.q.Guarded {
		asked[host.PathKey(os, dir)] = true
	}
	for _, path := range s.q.Guarded {
		for dir := host.Dir(os, path); !host.SamePath(os, host.Dir(os, dir), dir); dir = host.Dir(os, dir) {
			if asked[host.PathKey(os, dir)] {
				continue
			}
			asked[host.PathKey(os, dir)] = true
			fi, err := s.r.Stat(ctx, dir)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return out, err
			case fi.Open:
				out = append(out, observed{"users who are not administrators may rename  " + dir + " or what lies in it",
					fmt.Sprintf("leave the rights to change %s itself to SYSTEM and Administrators only (icacls, "+
						"this folder only; its content may keep its own), or move it away, so that nodejoin makes it", dir)})
			}
		}
	}
	slices.SortFunc(out, func(a, b observed) int { return strings.Compare(a.what, b.what) })
	return out, nil
}
