package pull

import (
	"testing"

	"nodejoin/steps/host"
	"nodejoin/steps/host/windows"
)

// closeFile closes a file to others.
func closeFile(t *testing.T, file string) {
	t.Helper()
	h, err := windows.New(windows.Options{})
	must(t, err)
	must(t, h.SetAccess(t.Context(), file, host.AccessPrivate))
}
