package host

import (
	"context"
	"errors"
	"io/fs"
)

// Own reports with ErrForeign that others could have made a file or folder of nodejoin's, or can change it: nothing
// of it may be believed, and nothing be written there. Absence is no error. What lies in a private folder of
// trusted owners was made by them.
func Own(ctx context.Context, r FilesReader, path string) error {
	fi, err := r.Stat(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Open || !fi.Dir && fi.Access != AccessPrivate:
		return &Error{Op: "read", Subject: path, Err: ErrForeign}
	}
	return nil
}
