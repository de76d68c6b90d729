package planbundle

import "os"

// own reports whether this is a folder. The folder for temporary files is the user's own.
func own(dir string) bool {
	fi, err := os.Lstat(dir)
	return err == nil && fi.IsDir()
}
