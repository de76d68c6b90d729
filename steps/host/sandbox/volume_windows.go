package sandbox

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/windows"
)

func volumeFree(path string) (uint64, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, err
	}
	return free, nil
}

func fileID(fi fs.FileInfo) string { return fmt.Sprintf("%x", fi.ModTime().UnixNano()) }
