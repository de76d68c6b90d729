package pull

import (
	"context"
	"fmt"

	"nodejoin/steps/host"
	"nodejoin/steps/host/windows"
)

// private fails if others on the machine than the system and administrators may read a login.
func private(file string) error {
	h, err := windows.New(windows.Options{})
	if err != nil {
		return err
	}
	i, err := h.Stat(context.Background(), file)
	if err == nil && i.Access != host.AccessPrivate {
		err = fmt.Errorf(`the login %s can be read by others; as an administrator, run icacls "%[1]s" /setowner `+
			`*S-1-5-32-544, then icacls "%[1]s" /inheritance:r /grant *S-1-5-18:F *S-1-5-32-544:F`, file)
	}
	return err
}
