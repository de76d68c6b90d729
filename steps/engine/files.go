package engine

import (
	"errors"
	"io/fs"
	"os"

	"nodejoin/steps"
)

// checkFiles looks for the artifacts of the controller that steps will read, so that
// all that is missing is told at once, before anything is changed.
func (h *hostRun) checkFiles(results map[string]steps.Result) {
	for _, spec := range h.specs(steps.OnHost) {
		r := results[spec.ID]
		if r.Err != nil || !h.needsBlob(spec) {
			continue
		}
		if err := readable(blobOf(spec).File); err != nil {
			r.Err = &steps.Error{Code: steps.CodeFailed, Summary: "an artifact cannot be read", Detail: err.Error(),
				Remedy: "put the file there, or mend the path or the version in the plan"}
			results[spec.ID] = r
		}
	}
}

// readable wants a file that can be opened and is no folder.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is no file")}
	}
	return errors.Join(err, f.Close())
}
