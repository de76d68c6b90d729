//go:build windows

package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// makeFolders creates path and its missing parents. Only the system and administrators can change each
// folder itself. Below C:\ Windows grants every user more, on a client even the right to rename a folder,
// and whoever renames C:\etc can replace it.
func makeFolders(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s is a file", fs.ErrExist, path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(path)
	if parent == path {
		return err
	}
	if err := makeFolders(parent); err != nil {
		return err
	}
	handed, err := inheritable(parent)
	if err != nil {
		return err
	}
	_, err = makeFolder(path, guardedDir(handed))
	return err
}

// makeFolder creates one folder with a descriptor in SDDL; made is false if another process has created it
// meanwhile.
func makeFolder(path, sddl string) (made bool, err error) {
	sa, err := attributes(sddl)
	if err != nil {
		return false, err
	}
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return false, err
	}
	err = windows.CreateDirectory(p, sa)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// entry is one of an access list.
type entry struct {
	deny  bool
	flags uint8
	mask  windows.ACCESS_MASK
	sid   *windows.SID
}

// inheritable returns the entries that a folder passes on to what is created below it, at any depth. Entries
// other than allow and deny, which no program sets on folders by itself, are left out.
func inheritable(dir string) ([]entry, error) {
	sd, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return nil, err
	}
	acl, _, err := sd.DACL()
	if err != nil || acl == nil {
		return nil, err
	}
	return handedOn(acl)
}

func handedOn(acl *windows.ACL) ([]entry, error) {
	var out []entry
	for i := range acl.AceCount {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(acl, uint32(i), &ace); err != nil {
			return nil, err
		}
		kind, flags := ace.Header.AceType, ace.Header.AceFlags
		handed := flags&(windows.OBJECT_INHERIT_ACE|windows.CONTAINER_INHERIT_ACE) != 0 &&
			flags&windows.NO_PROPAGATE_INHERIT_ACE == 0
		if !handed || kind != windows.ACCESS_ALLOWED_ACE_TYPE && kind != windows.ACCESS_DENIED_ACE_TYPE {
			continue
		}
		sid, err := (*windows.SID)(unsafe.Pointer(&ace.SidStart)).Copy()
		if err != nil {
			return nil, err
		}
		out = append(out, entry{deny: kind == windows.ACCESS_DENIED_ACE_TYPE, flags: flags, mask: ace.Mask, sid: sid})
	}
	return out, nil
}

// guardedDir is the descriptor (SDDL) of a folder whose parent passes on these entries. Only the system and
// administrators can change the folder itself; others keep their right to read. What is made in it inherits
// the same as without the guard: pods write into their volumes below C:\var\lib\kubelet by what C:\ gives
// to Users (kubernetes/kubernetes#75049).
func guardedDir(handed []entry) string {
	var denies, allows, below strings.Builder
	for _, e := range handed {
		kind, here, mask := "A", &allows, readOnly(e.mask)
		if e.deny {
			kind, here, mask = "D", &denies, e.mask
		}
		if e.flags&windows.CONTAINER_INHERIT_ACE != 0 && mask != 0 && !slices.ContainsFunc(notOthers, e.sid.IsWellKnown) {
			ace(here, kind, 0, mask, e.sid)
		}
		ace(&below, kind, e.flags&^windows.INHERITED_ACE|windows.INHERIT_ONLY_ACE, e.mask, e.sid)
	}
	return "O:BAD:P" + denies.String() + "(A;;FA;;;SY)(A;;FA;;;BA)" + allows.String() + below.String()
}

// notOthers have full access to the folders that nodejoin makes, or stand for the creator of an entry.
var notOthers = []windows.WELL_KNOWN_SID_TYPE{windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid,
	windows.WinCreatorOwnerSid, windows.WinCreatorGroupSid}

// readOnly is the part of a mask that grants reading and traversing.
func readOnly(mask windows.ACCESS_MASK) windows.ACCESS_MASK {
	const read, pass = windows.FILE_GENERIC_READ, windows.FILE_GENERIC_EXECUTE
	out := mask & (read | pass)
	if mask&(windows.GENERIC_ALL|windows.GENERIC_READ) != 0 {
		out |= read
	}
	if mask&(windows.GENERIC_ALL|windows.GENERIC_EXECUTE) != 0 {
		out |= pass
	}
	return out
}

func ace(to *strings.Builder, kind string, flags uint8, mask windows.ACCESS_MASK, sid *windows.SID) {
	words := ""
	for _, f := range []struct {
		bit  uint8
		word string
	}{{windows.OBJECT_INHERIT_ACE, "OI"}, {windows.CONTAINER_INHERIT_ACE, "CI"}, {windows.INHERIT_ONLY_ACE, "IO"}} {
		if flags&f.bit != 0 {
			words += f.word
		}
	}
	fmt.Fprintf(to, "(%s;%s;%#x;;;%s)", kind, words, uint32(mask), sid)
}
