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

// wine is an export that Windows lacks.
var wine = sys.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version")

// openFile lets others write a file, in each way that there is, and gives what is said of it. Wine keeps of an access
// list what the mode of a file has: what everybody may.
func openFile(t *testing.T, file string) iter.Seq[string] {
	ways := []string{"0x2;;;WD", "GW;;;WD"}
	if wine.Find() != nil {
		ways = append(ways, "0x2;;;BU", "0x4;;;BU", "GW;;;BU", "WD;;;BU", "WO;;;BU", "SD;;;BU")
	}
	return func(yield func(string) bool) {
		for _, way := range ways {
			sd, err := sys.SecurityDescriptorFromString("D:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;" + way + ")")
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
