//go:build unix

package pull

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// closed fails if others on the machine than root and this user own a file that says whom to trust, or may write it.
func closed(file string) error {
	// Who owns a link can have it lead elsewhere.
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		i, err := stat(file)
		if err != nil {
			return err
		}
		if s, ok := i.Sys().(*syscall.Stat_t); !ok || s.Uid != 0 && int(s.Uid) != os.Geteuid() {
			return fmt.Errorf("%s says whom to trust, and belongs to another user; run chown -h root on it", file)
		}
		if i.Mode()&fs.ModeSymlink == 0 && i.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s says whom to trust, and others may write it (mode %v); run chmod go-w on it", file,
				i.Mode()&fs.ModePerm)
		}
	}
	return nil
}
