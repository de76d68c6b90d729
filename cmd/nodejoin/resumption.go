package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"nodejoin/plan/saved"
)

// resumption is what steps.ResumeService has to do, as a file in nodejoin's folder. It has
// no secret: a plan that needs one from this run's environment is not resumed.
type resumption struct {
	Version int             `json:"version"` // resumeVersion
	Node    string          `json:"node"`
	Plan    json.RawMessage `json:"plan"`            // a saved.Plan without the state of its hosts
	Flags   []string        `json:"flags,omitempty"` // of apply
	// Folders are environment variables with folders of the user who ran apply.
	Folders map[string]string `json:"folders,omitempty"`
	Starts  int               `json:"starts"`  // of the service since the last reboot
	Reboots int               `json:"reboots"` // made for the plan, including the one before this run

	saved *saved.Plan
}

const resumeVersion = 1

// folderVariables have the home folder and the folders of nodejoin's history and cache.
// They are different for a service.
var folderVariables = []string{"HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_STATE_HOME"}

// readResumption reads a resumption.
func readResumption(path string) (*resumption, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &resumption{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Version != resumeVersion {
		return nil, fmt.Errorf("%s has version %d, but this nodejoin reads version %d", path, r.Version, resumeVersion)
	}
	if r.saved, err = saved.Decode(r.Plan); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// text is the content of the file.
func (r *resumption) text() (string, error) {
	b, err := json.MarshalIndent(r, "", " ")
	return string(b) + "\n", err
}

// useFolders sets the folders of the user who ran apply in this process.
func (r *resumption) useFolders() error {
	for _, name := range slices.Sorted(maps.Keys(r.Folders)) {
		if err := os.Setenv(name, r.Folders[name]); err != nil {
			return err
		}
	}
	return nil
}
