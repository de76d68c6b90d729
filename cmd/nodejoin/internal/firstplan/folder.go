package firstplan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/plan"
)

// RequireNone refuses a folder that has a plan: all files of a folder are one plan.
func RequireNone(folder string) error {
	switch fi, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%s is not a folder", folder)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), plan.Suffix) {
			return fmt.Errorf("%s already exists, and all files of a folder are one plan; name another folder",
				filepath.Join(folder, e.Name()))
		}
	}
	return nil
}

// Create writes a new file, whole or not at all, and makes its folder.
func Create(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return atomicfile.Create(name, data)
}
