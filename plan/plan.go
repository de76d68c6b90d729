package plan

import (
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/plan/lock"
	"nodejoin/plan/source"
	"nodejoin/steps"
)

//go:generate go run ./internal/genreference

// Suffix ends the names of plan files.
const Suffix = source.Suffix

// Options are what a plan is read with.
type Options struct {
	// Version of this nodejoin, for required_version. If it is not a semantic version ("dev"),
	// required_version is not checked, with a warning.
	Version string
	// Text is the plan's one file, for a plan that is checked before it is in its place; nil = files are read.
	Text []byte
	// Vars are values of variables by name, as given with --var. For a variable of
	// type string the text is the value, else it is read as an expression.
	Vars map[string]string
	// VarFiles are files of `name = value`, as given with --var-file. They win over
	// the files *.auto.joinvars in the plan's folder, which are read by themselves.
	VarFiles []string
	// Environment is the one of the plan's environments that the run is for, as given with --env; its file
	// env/NAME.joinvars wins over *.auto.joinvars. "" = none.
	Environment string
	// Env looks up the controller's environment, for NODEJOIN_VAR_name and the
	// function env. nil = no variable is set.
	Env func(name string) (string, bool)
	// Agent returns the agent program for an OS and architecture; connection is the type of the
	// node's connection. It is called only where a recipe needs it. nil = such plans are
	// refused.
	Agent func(os, arch, connection string) (steps.Source, error)
	// Self returns the program nodejoin, as Agent returns its program, for nodes that follow a plan.
	Self func(os, arch, connection string) (steps.Source, error)
	// Program runs the program of a data "exec" block on the controller. nil = such plans are refused.
	Program func(eval.Program) ([]byte, error)
	// FollowLogin is for a machine that applies a release to itself: its own login, which stays as it is. A release has
	// no passwords and tokens, so those that its follow blocks name are not read. nil = they are.
	FollowLogin *steps.Login
	// Module unpacks a module that is not beside the plan, once its digest is verified, and returns its folder. nil =
	// such plans are refused.
	Module func(source.Remote) (dir string, err error)
	// ModuleDigest reads what digest a module has now. locked is the one that the lock has, "" = none. It is for
	// 'nodejoin lock'; nil = the lock's counts.
	ModuleDigest func(address, locked string) (sha256 string, err error)
	// Unvalued is for judging a plan without the values of its variables: what depends on one that has none is unknown.
	// No program is run, and the files of data blocks need not exist.
	Unvalued bool
	// Untrusted is for a plan of somebody else, such as that of a pull request: it reads no environment and no file
	// outside its folder.
	Untrusted bool
	// Locking is for 'nodejoin lock': artifacts need no digest, and the lock need not fit.
	Locking bool
	// Note is told each file that is a part of the plan, with its absolute path; nil = nobody wants to know. Keys,
	// kubeconfigs and what else the plan names by an absolute path are files of this machine.
	Note func(file string)
	// Bundle is where artifacts and images are, for a plan from a bundle; nil = it is not from one.
	Bundle *Bundle
	// Offline: a plan is refused that would have hosts or this machine read anything by an address.
	Offline bool
	// Limits bound what compiling may take; the zero value stands for DefaultLimits.
	Limits Limits
}

// Plan is a parsed plan: it is HCL, but may not be valid.
type Plan struct {
	opt    Options
	path   string // as it was given to Load
	files  *source.Files
	blocks map[string][]*hcl.Block // by type, in order of files and lines
	alone  bool                    // one file was named, not its folder
	early  *eval.Diags             // problems of the structure, for Compile to report
	// lost are the types of blocks that occur, even if they are wrong.
	lost map[string]bool
	// broken: the text is not HCL, or is for another version; it cannot be compiled.
	broken bool
	locked *lock.File // nil = there is none
	lockAt string     // the lock's file, whether it exists or not
}

// IsFile reports whether a name is that of a file that makes a plan: one of its own, or its lock. Files of
// values are not.
func IsFile(name string) bool {
	return strings.HasSuffix(name, Suffix) || strings.HasSuffix(name, lock.Suffix)
}

// Files are the sources that diagnostics of this plan point into, by file name.
func (p *Plan) Files() map[string]*hcl.File { return p.files.Parser.Files() }

// Variables are the names of the variables that the plan declares, in its order.
func (p *Plan) Variables() (names []string) {
	for _, b := range p.blocks["variable"] {
		names = append(names, b.Labels[0])
	}
	return names
}
