package pull

import (
	"iter"
	"testing"

	sys "golang.org/x/sys/windows"

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

// openFile lets others write a file, in each way that there is, and gives what is said of it.
func openFile(t *testing.T, file string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, rights := range []string{"0x2", "0x4", "GW", "WD", "WO", "SD"} {
			sd, err := sys.SecurityDescriptorFromString("D:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;" + rights + ";;;BU)")
			must(t, err)
			list, _, err := sd.DACL()
			must(t, err)
			must(t, sys.SetNamedSecurityInfo(file, sys.SE_FILE_OBJECT,
				sys.DACL_SECURITY_INFORMATION|sys.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil))
			more := yield("others own it or may write it")
			closeFile(t, file)
			if !more {
				return
			}
		}
	}
}
