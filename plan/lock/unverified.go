package lock

import "slices"

// Unverified are the artifacts for whose digests nobody vouches, each once. f may be nil.
func (f *File) Unverified() (names []string) {
	if f == nil {
		return nil
	}
	for _, e := range f.Entries {
		if e.Verified == None {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
