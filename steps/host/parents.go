package host

import (
	"context"
	"errors"
	"io/fs"
	"slices"
)

// Within reports whether path is dir or lies below it.
func Within(os, dir, path string) bool {
	dir = PathKey(os, dir)
	for at := PathKey(os, path); ; {
		if at == dir {
			return true
		}
		up := PathKey(os, Dir(os, at))
		if up == at || len(up) >= len(at) {
			return false
		}
		at = up
	}
}

// MissingParents are the folders above path that do not exist, the outermost first. A file in their place is ErrFile.
func MissingParents(ctx context.Context, r Reader, os, path string) ([]string, error) {
	var out []string
	for dir := Dir(os, path); ; dir = Dir(os, dir) {
		fi, err := r.Stat(ctx, dir)
		if err == nil && !fi.Dir {
			return nil, &Error{Op: "make folders of " + path + ":", Subject: dir, Err: ErrFile}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		out = append(out, dir)
		if SamePath(os, Dir(os, dir), dir) {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}
