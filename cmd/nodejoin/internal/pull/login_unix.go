//go:build unix

package pull

import (
	"fmt"
	"io/fs"
	"os"
)

// private fails if others on the machine may read a login.
func private(file string) error {
	i, err := os.Stat(file)
	if err == nil && i.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("the login %s can be read by others (mode %v); run chmod 600 on it", file,
			i.Mode()&fs.ModePerm)
	}
	return err
}
