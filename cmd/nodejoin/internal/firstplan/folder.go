package firstplan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

// Create writes a new file, and makes its folder.
func Create(name string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			_ = os.Remove(name)
		}
	}()
	_, err = f.Write(data)
	return err
}
