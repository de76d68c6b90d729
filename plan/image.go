package plan

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/lock"
)

// Image is a container image that nodes of one platform run.
type Image struct {
	Name     string // as the plan names it
	OS, Arch string
	Build    string    // of Windows, 10.0.20348; "" = not known, or another OS
	Range    hcl.Range // what needs it
}

// Platform names the platform as the lock does. Without its build, that of Windows stands for all builds.
func (i Image) Platform() string {
	if i.Build == "" {
		return i.OS + "/" + i.Arch
	}
	return fmt.Sprintf("%s(%s)/%s", i.OS, i.Build, i.Arch)
}

// LockedAs reports whether an entry of the lock is about the image.
func (i Image) LockedAs(e lock.Image) bool {
	if e.Name != i.Name {
		return false
	}
	return e.Platform == i.Platform() || i.OS == "windows" && i.Build == "" &&
		strings.HasPrefix(e.Platform, "windows(") && strings.HasSuffix(e.Platform, ")/"+i.Arch)
}
