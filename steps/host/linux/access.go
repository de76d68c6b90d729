//go:build linux

package linux

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"nodejoin/steps/host"
)

// trusted reports whether root or the user of this process owns a file: nobody else can change its access.
func trusted(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// writable reports whether others than its owner and root may change a file, or what lies in a folder.
func writable(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode()&0o002 != 0 || info.Mode()&0o020 != 0 && (!ok || st.Gid != 0)
}

func describe(name string, info fs.FileInfo) host.FileInfo {
	out := host.FileInfo{Name: name, Dir: info.IsDir(), ModTime: info.ModTime(), Access: accessOf(info.Mode()),
		Open: !trusted(info) || writable(info), Writable: writable(info)}
	if out.Access == host.AccessPrivate && !trusted(info) {
		out.Access = host.AccessDefault // its owner reads it, and can let others
	}
	if !out.Dir {
		out.Size = info.Size()
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out.ID = fmt.Sprintf("%x-%x-%x.%09d", st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
	}
	return out
}

// accessOf is the access that a mode gives.
func accessOf(mode fs.FileMode) host.Access {
	others := fs.FileMode(0o066)
	if mode.IsDir() {
		others = 0o077 // what lies in a folder that can be searched can be reached
	}
	switch {
	case mode&others == 0:
		return host.AccessPrivate
	case !mode.IsDir() && mode&0o111 != 0:
		return host.AccessProgram
	}
	return host.AccessDefault
}

// modeOf is the mode that gives an access.
func modeOf(access host.Access, dir bool) (fs.FileMode, error) {
	switch {
	case access == host.AccessPrivate && dir:
		return 0o700, nil
	case access == host.AccessPrivate:
		return 0o600, nil
	case access == host.AccessProgram, access == host.AccessDefault && dir:
		return 0o755, nil
	case access == host.AccessDefault:
		return 0o644, nil
	}
	return 0, fmt.Errorf("%w: access %q", fs.ErrInvalid, access)
}
