package hostlock

import (
	"errors"

	"golang.org/x/sys/windows"
)

// held reports whether err may be due to a file that another program has open: Go programs open files
// without FILE_SHARE_DELETE, so meanwhile it can be neither replaced nor removed.
func held(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
}
