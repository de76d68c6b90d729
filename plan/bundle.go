package plan

import "nodejoin/steps"

// Bundle is what came with a plan in one file.
type Bundle struct {
	Root string // folder with all files of the plan, absolute
	Own  string // folder that relative paths to files of this machine (keys, kubeconfigs) start from, absolute
	// File returns the file with the bytes of an artifact, by its digest; "" = the bundle does not have it.
	File func(steps.Source) string
	// Image returns the archive of an image for an OS and architecture; without a file, the bundle does not have it.
	Image func(name, os, arch string) steps.Source
}
