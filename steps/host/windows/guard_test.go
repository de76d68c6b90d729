//go:build windows

package windows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// TestGuardedDir: of the rights that a Windows drive passes on, a folder itself keeps only
// reading, and what is made in it inherits them all.
func TestGuardedDir(t *testing.T) {
	const closed = "O:BAD:P"
	const own = "(A;;FA;;;SY)(A;;FA;;;BA)"
	for _, c := range []struct{ name, parent, want string }{
		{"C: of a server",
			"D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)(A;CI;0x4;;;BU)(A;CIIO;0x2;;;BU)(A;OICIIO;GA;;;CO)",
			closed + own + "(A;;0x1200a9;;;BU)" +
				"(A;OICIIO;0x1f01ff;;;SY)(A;OICIIO;0x1f01ff;;;BA)(A;OICIIO;0x1200a9;;;BU)" +
				"(A;CIIO;0x4;;;BU)(A;CIIO;0x2;;;BU)(A;OICIIO;0x10000000;;;CO)"},
		{"C: of a client", "D:P(A;OICI;0x1200a9;;;BU)(A;OICIIO;0x1301bf;;;AU)(A;;0x4;;;AU)",
			closed + own + "(A;;0x1200a9;;;BU)(A;;0x1200a9;;;AU)(A;OICIIO;0x1200a9;;;BU)(A;OICIIO;0x1301bf;;;AU)"},
		{"what is handed on once only, and to files only", "D:P(A;OICINP;FA;;;BU)(A;OI;FA;;;AU)",
			closed + own + "(A;OIIO;0x1f01ff;;;AU)"},
		{"what is denied", "D:P(D;OICI;0x1301bf;;;BG)(A;OICI;GRGX;;;BU)",
			closed + "(D;;0x1301bf;;;BG)" + own + "(A;;0x1200a9;;;BU)(D;OICIIO;0x1301bf;;;BG)(A;OICIIO;0xa0000000;;;BU)"},
		{"a private folder", privateDir, closed + own + "(A;OICIIO;0x1f01ff;;;SY)(A;OICIIO;0x1f01ff;;;BA)"},
	} {
		sd, err := windows.SecurityDescriptorFromString(c.parent)
		if err != nil {
			t.Fatal(c.name, err)
		}
		acl, _, err := sd.DACL()
		if err != nil {
			t.Fatal(c.name, err)
		}
		list, err := handedOn(acl)
		if err != nil {
			t.Fatal(c.name, err)
		}
		got := guardedDir(list)
		for sid, word := range map[string]string{"S-1-5-18": "SY", "S-1-5-32-544": "BA", "S-1-5-32-545": "BU",
			"S-1-5-11": "AU", "S-1-3-0": "CO", "S-1-5-32-546": "BG"} {
			got = strings.ReplaceAll(got, ";"+sid+")", ";"+word+")")
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
		if _, err := windows.SecurityDescriptorFromString(got); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestGuardedFolders: below a folder that anybody can change, users cannot rename the parent
// folders that nodejoin makes.
func TestGuardedFolders(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	dir := filepath.Join(tempDir(t), "open")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	sd, err := windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;WD)")
	if err != nil {
		t.Fatal(err)
	}
	everybody, _, err := sd.DACL()
	if err != nil {
		t.Fatal(err)
	}
	const what = windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	if err := windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, what, nil, nil, everybody, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Mkdir(ctx, filepath.Join(dir, "a", "b"), host.AccessDefault); err != nil {
		t.Fatal(err)
	}
	if err := h.Mkdir(ctx, filepath.Join(dir, "c", "private"), host.AccessPrivate); err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFile(ctx, filepath.Join(dir, "d", "e", "f"), strings.NewReader("f"),
		host.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for path, open := range map[string]bool{"": true, "a": false, `a\b`: false, "c": false, `c\private`: false,
		"d": false, `d\e`: false} {
		info, err := h.Stat(ctx, filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Open != open {
			t.Errorf("%q: open is %v, want %v", path, info.Open, open)
		}
	}
}
