package host

import (
	"context"
	"io"
	"time"
)

// FilesReader observes files and folders.
type FilesReader interface {
	// Stat describes a file or directory.
	Stat(ctx context.Context, path string) (FileInfo, error)
	// Open reads a file from its start.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
	// List returns the entries of a directory, sorted by name.
	List(ctx context.Context, path string) ([]FileInfo, error)
	// FreeBytes is the space left on the volume that holds path (or would hold it).
	FreeBytes(ctx context.Context, path string) (uint64, error)
	// Mounts lists the mount points at path and below, in mount order. Windows, whose volumes only an
	// administrator mounts in folders, returns none; so does a path that does not exist.
	Mounts(ctx context.Context, path string) ([]string, error)
}

// Files observes and changes files and folders.
type Files interface {
	FilesReader

	// Mkdir creates a directory and its missing parents; for an existing one it only sets the access. On
	// Windows, only the system and administrators can change a folder that it creates, whatever C:\ grants to
	// others; entries created in it later inherit as usual (except with AccessPrivate).
	Mkdir(ctx context.Context, path string, access Access) error
	// WriteFile replaces path atomically (temporary file beside it, flush, rename) and creates missing parents,
	// as Mkdir does. The temporary name is TempName(path), so a later run reuses or overwrites what an
	// interrupted one left.
	WriteFile(ctx context.Context, path string, r io.Reader, opt WriteOptions) error
	// CreateExclusive creates a new file with this content, or fails with fs.ErrExist.
	CreateExclusive(ctx context.Context, path string, data []byte) error
	// Rename moves a file, replacing newPath. A program that runs from newPath is ErrBusy; one that runs from oldPath
	// goes on.
	Rename(ctx context.Context, oldPath, newPath string) error
	// Remove deletes a file or an empty directory; absence is not an error. A program
	// that runs from path is ErrBusy.
	Remove(ctx context.Context, path string) error
	// Unmount removes the topmost mount at exactly this path; it is not an error if there is none. One that is
	// in use is ErrBusy.
	Unmount(ctx context.Context, path string) error
	// SetAccess changes who may read and write path.
	SetAccess(ctx context.Context, path string, access Access) error
}

// Access says who may read and write a file or directory.
type Access string

const (
	// AccessDefault is what the parent grants. Windows: inherited, a new directory as described at Mkdir; Linux:
	// 0644, directories 0755.
	AccessDefault Access = ""
	AccessPrivate Access = "private" // SYSTEM and Administrators only, inheritance off; Linux: 0600, directories 0700
	AccessProgram Access = "program" // Windows: as AccessDefault; Linux: 0755
)

// FileInfo describes one file or directory.
type FileInfo struct {
	Name    string    `json:"name"` // last element
	Dir     bool      `json:"dir,omitempty"`
	Size    int64     `json:"size"` // bytes; 0 for directories
	ModTime time.Time `json:"mod_time"`
	// Access as observed: AccessPrivate when nobody but the system and
	// administrators (Linux: root, and the user that asks) owns it and can read it, AccessProgram when a
	// Linux file is executable, else AccessDefault.
	Access Access `json:"access,omitempty"`
	// Open: others than the system and administrators (Linux: root, and the user that asks) own it or the link
	// at its path, can rename it or what lies in it, or give themselves the right to.
	Open bool `json:"open,omitempty"`
	// Writable (Linux): the mode lets others than its owner and root change a file, or what lies in a folder.
	Writable bool `json:"writable,omitempty"`
	// ID changes when the file is replaced (inode and change time, or file index); empty if the machine has
	// none.
	ID string `json:"id,omitempty"`
	// Elsewhere marks an entry of List that leads to another place: a link, a junction, a mount point. The other
	// fields describe that place; Remove of a link or junction removes only the link.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// WriteOptions are the attributes of a written file.
type WriteOptions struct {
	Access Access
	// SHA256, if set, is checked against the bytes that were read; a mismatch leaves nothing behind and is a
	// *DigestError.
	SHA256 string
	// Followed: the caller changes another file of the folder next. Linux: that change has the name of this one written
	// to the disk, too; where there is no such change, the file may be lost with the power.
	Followed bool
}
