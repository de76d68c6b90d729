package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Digest covers the names and contents of a plan's files, but not files of values, which may have secrets.
func Digest(files map[string]*hcl.File) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if IsFile(name) {
			fmt.Fprintf(sum, "%q %d\n%s\n", filepath.Base(name), len(files[name].Bytes), files[name].Bytes)
		}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
