package pull

import (
	"fmt"

	"nodejoin/steps/host/windows"
)

// closed fails if others on the machine than the system and administrators own a file that says whom to trust, or may
// write it.
func closed(file string) error {
	h, err := windows.New(windows.Options{})
	if err != nil {
		return err
	}
	open, err := h.OthersWrite(file)
	if err == nil && open {
		err = fmt.Errorf(`%s says whom to trust, and others own it or may write it; as an administrator, run `+
			`icacls "%[1]s" /setowner *S-1-5-32-544, then icacls "%[1]s" /inheritance:r `+
			`/grant *S-1-5-18:F *S-1-5-32-544:F`, file)
	}
	return err
}
