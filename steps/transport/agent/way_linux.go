package agent

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"nodejoin/steps/host"
)

// checkWay refuses a program that others than its owner and root can change or replace: by its own access, or by
// that of a folder on its path. OpenSSH asks the same of authorized_keys (StrictModes of sshd_config).
func checkWay(program string, owner int) error {
	for path := program; ; path = filepath.Dir(path) {
		fi, err := os.Lstat(path)
		if err != nil {
			return err
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok || path == program && !fi.Mode().IsRegular() || path != program && !fi.IsDir() {
			return &host.Error{Op: "run", Subject: path, Err: fs.ErrInvalid}
		}
		sticky := fi.IsDir() && fi.Mode()&fs.ModeSticky != 0 && st.Uid == 0 // as /tmp: only owners rename
		if st.Uid != 0 && int(st.Uid) != owner || fi.Mode()&0o022 != 0 && !sticky {
			return fmt.Errorf("%s can be changed by others: user %d owns it, its mode is %#o", path, st.Uid, fi.Mode().Perm())
		}
		if path == filepath.Dir(path) {
			return nil
		}
	}
}
