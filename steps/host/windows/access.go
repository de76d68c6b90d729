//go:build windows

package windows

import (
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// Security descriptors of private files and folders in SDDL: owner
// Administrators (BA); inheritance off (P); full control (FA) for SYSTEM (SY) and
// Administrators, which a folder hands on to what is made in it (OICI).
// https://learn.microsoft.com/windows/win32/secauthz/security-descriptor-string-format
const (
	privateFile = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)"
	privateDir  = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
)

// trustedSIDs are the accounts that may have access to a private file: SYSTEM, Administrators, and the
// account of this process if it is an administrator (it owns what it creates, with the access of the group).
func trustedSIDs() ([]*windows.SID, error) {
	var sids []*windows.SID
	for _, kind := range []windows.WELL_KNOWN_SID_TYPE{windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid} {
		sid, err := windows.CreateWellKnownSid(kind)
		if err != nil {
			return nil, err
		}
		sids = append(sids, sid)
	}
	admin, err := isAdmin()
	if err != nil || !admin {
		return sids, err
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, err
	}
	sid, err := user.User.Sid.Copy()
	if err != nil {
		return nil, err
	}
	return append(sids, sid), nil
}

// isAdmin reports whether the process's token has the Administrators group enabled.
func isAdmin() (bool, error) {
	admins, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid)
	if err != nil {
		return false, err
	}
	// The null token means the one this thread acts with.
	return windows.Token(0).IsMember(admins)
}

func (h *Host) trusts(sid *windows.SID) bool {
	for _, t := range h.trusted {
		if sid.Equals(t) {
			return true
		}
	}
	return false
}

// access determines who may use path from its owner and access list, and whether others may rename it. An
// owner can always change the list, so a private file must also have a trusted owner.
func (h *Host) access(path string) (access host.Access, open bool, err error) {
	return h.accessBy(path, moves)
}

// accessBy is access; open is for what has one of the rights.
func (h *Host) accessBy(path string, rights windows.ACCESS_MASK) (access host.Access, open bool, err error) {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return "", false, err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return "", false, err
	}
	acl, _, err := sd.DACL()
	if err != nil {
		return "", false, err
	}
	access = host.AccessPrivate
	if owner == nil || !h.trusts(owner) || acl == nil { // no list at all: everybody
		access = host.AccessDefault
	}
	open = owner == nil || !h.trusts(owner) && !administers(owner) || acl == nil
	if acl == nil {
		return access, open, nil
	}
	for i := range acl.AceCount {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(acl, uint32(i), &ace); err != nil {
			return "", false, err
		}
		switch ace.Header.AceType {
		case windows.ACCESS_DENIED_ACE_TYPE:
		case windows.ACCESS_ALLOWED_ACE_TYPE:
			if sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart)); ace.Mask != 0 && !h.trusts(sid) {
				access = host.AccessDefault
				open = open || ace.Header.AceFlags&windows.INHERIT_ONLY_ACE == 0 && ace.Mask&rights != 0 &&
					!administers(sid)
			}
		default: // object, callback and later kinds: not what we write
			access = host.AccessDefault
		}
	}
	return access, open, nil
}

// securityAttributes are those of a new file, nil for inherited: a private file is never readable by
// others.
func securityAttributes(access host.Access) (*windows.SecurityAttributes, error) {
	switch access {
	case host.AccessDefault, host.AccessProgram:
		return nil, nil
	case host.AccessPrivate:
	default:
		return nil, fmt.Errorf("%w: access %q", fs.ErrInvalid, access)
	}
	return attributes(privateFile)
}

func attributes(sddl string) (*windows.SecurityAttributes, error) {
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return nil, err
	}
	sa := &windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(*sa))
	return sa, nil
}

// moves are the rights that allow to rename or remove a folder or its content, or to take such rights
// (winnt.h).
const (
	fileDeleteChild = 0x40
	moves           = windows.DELETE | fileDeleteChild | windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_ALL
	// writes are those that allow to change the content of a file.
	writes = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.GENERIC_WRITE
)

// administers reports whether an account may administer the machine although private files are not open to
// it: services by their own SID, such as TrustedInstaller, which owns C:\, and accounts and groups of
// administrators of machine and domain
// (learn.microsoft.com/windows-server/identity/ad-ds/manage/understand-security-identifiers).
func administers(sid *windows.SID) bool {
	const (
		nonUnique  = 21 // S-1-5-21-...: accounts of a machine or a domain
		service    = 80 // S-1-5-80-...: NT SERVICE\...
		admin      = 500
		admins     = 512
		enterprise = 519
	)
	if sid.IdentifierAuthority() != windows.SECURITY_NT_AUTHORITY || sid.SubAuthorityCount() < 2 {
		return false
	}
	switch sid.SubAuthority(0) {
	case service:
		return true
	case nonUnique:
		last := sid.SubAuthority(uint32(sid.SubAuthorityCount()) - 1)
		return last == admin || last == admins || last == enterprise
	}
	return false
}
