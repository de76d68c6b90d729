package preflight

import (
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps/host"
)

// programDirs are the folders in which services find programs: the usual PATH of a service manager
// (systemd.exec(5), "Environment variables").
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// installed reports whether a program is in one of them.
func installed(ctx context.Context, r host.Reader, name string) (bool, error) {
	for _, dir := range programDirs {
		fi, err := r.Stat(ctx, dir+"/"+name)
		if err == nil && !fi.Dir {
			return true, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}
