package hostlock

import (
	"errors"

	"golang.org/x/sys/windows"
)

// held reports whether err may come of a file that another program holds open: Go's own programs
// open files without FILE_SHARE_DELETE, so for that moment it can be neither replaced nor removed.
func held(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
}
