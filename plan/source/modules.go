package source

import "github.com/hashicorp/hcl/v2"

// modules are the modules of a plan that were read.
type modules struct {
	of   map[string]string       // name of a file -> folder of its module
	read map[string][]ModuleFile // by folder
	// trees are those of modules that are not beside the plan.
	trees []unpackedTree
}

func newModules() *modules { return &modules{of: map[string]string{}, read: map[string][]ModuleFile{}} }

// ModuleFile is a file of a module.
type ModuleFile struct {
	Body  hcl.Body        // nil where it is not text
	Wrong hcl.Diagnostics // with errors the body is not to be used
}

// unpackedTree is a folder that the archive of a module was unpacked into.
type unpackedTree struct {
	dir   string // absolute
	shown string // how Place names it, the same on all machines
}
