// Package resume finishes a plan on the machine that nodejoin itself runs on, after a reboot: the file that says what
// is left to do, the steps that put it and a service there, and what that service does.
package resume

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"nodejoin/plan/saved"
)

// File is what the service has to do, as a file in nodejoin's folder. It has no secret: a plan that needs one from
// the environment of the run that rebooted the machine is not resumed.
type File struct {
	Version int             `json:"version"`
	Node    string          `json:"node"`
	Plan    json.RawMessage `json:"plan"`            // a saved.Plan without the state of its hosts
	Flags   []string        `json:"flags,omitempty"` // of apply
	// Folders are environment variables with folders of the user who ran apply.
	Folders map[string]string `json:"folders,omitempty"`
	Starts  int               `json:"starts"`  // of the service since the last reboot
	Reboots int               `json:"reboots"` // made for the plan, including the one before this run

	Saved *saved.Plan `json:"-"` // Plan, decoded by Read
}

const version = 1

// folderVariables have the home folder and the folders of nodejoin's history and cache.
// They are different for a service.
var folderVariables = []string{"HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_STATE_HOME"}

// Carries reports whether a File has the environment variable of that name.
func Carries(name string) bool { return slices.Contains(folderVariables, name) }

// New returns the file for a node before the first reboot. p has no state of hosts.
func New(node string, p *saved.Plan, flags []string) (*File, error) {
	b, err := p.Encode()
	if err != nil {
		return nil, err
	}
	f := &File{Version: version, Node: node, Plan: b, Flags: flags, Folders: map[string]string{}, Reboots: 1}
	for _, name := range folderVariables {
		if v, ok := os.LookupEnv(name); ok {
			f.Folders[name] = v
		}
	}
	return f, nil
}

// Read reads the file at path.
func Read(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.Version != version {
		return nil, fmt.Errorf("%s has version %d, but this nodejoin reads version %d", path, f.Version, version)
	}
	if f.Saved, err = saved.Decode(f.Plan); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Next returns the file for one more reboot.
func (f *File) Next() *File {
	next := *f
	next.Reboots, next.Starts = f.Reboots+1, 0
	return &next
}

// Text is the content of the file.
func (f *File) Text() (string, error) {
	b, err := json.MarshalIndent(f, "", " ")
	return string(b) + "\n", err
}

// useFolders sets the folders of the user who ran apply in this process.
func (f *File) useFolders() error {
	for _, name := range slices.Sorted(maps.Keys(f.Folders)) {
		if err := os.Setenv(name, f.Folders[name]); err != nil {
			return err
		}
	}
	return nil
}
