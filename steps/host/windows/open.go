//go:build windows

package windows

import (
	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// Options say how a Host works.
type Options struct {
	// DataDir is nodejoin's own folder, reported by Facts.
	// Default: `nodejoin` in the machine's ProgramData folder.
	DataDir string
	// FeatureService is a command that runs FeatureService with the arguments that are added to it. Windows Update
	// refuses logins over the network; with this command, features that come from it are installed as SYSTEM.
	FeatureService []string
}

var _ host.Host = (*Host)(nil)

// New returns the machine this program runs on. It fails only if the process's own token cannot be read.
func New(opt Options) (*Host, error) {
	if opt.DataDir == "" {
		base, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
		if err != nil {
			return nil, &host.Error{Op: "find folder", Subject: "ProgramData", Err: err}
		}
		opt.DataDir = host.Join("windows", base, "nodejoin")
	}
	trusted, err := trustedSIDs()
	if err != nil {
		return nil, &host.Error{Op: "read", Subject: "process token", Err: err}
	}
	return &Host{dataDir: opt.DataDir, trusted: trusted, featureService: opt.FeatureService}, nil
}
