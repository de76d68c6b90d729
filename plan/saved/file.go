package saved

import (
	"errors"
	"fmt"
	"os"
)

// ReadFile reads a file that may be a saved plan.
func ReadFile(name string) ([]byte, error) {
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case fi.Size() > MaxSize:
		return nil, fmt.Errorf("%s: %w", name, ErrNotSaved)
	}
	return os.ReadFile(name)
}

// Stale is the error for a saved plan that is out of date; nil without changes.
func Stale(what string, changes []string) error {
	if len(changes) == 0 {
		return nil
	}
	const most = 20
	text := what + ", so it is not applied:"
	for i, c := range changes {
		if i == most {
			text += fmt.Sprintf("\n  and %d more", len(changes)-most)
			break
		}
		text += "\n  " + c
	}
	return errors.New(text + "\nNothing was changed. Run plan again, review it, and apply that.")
}
