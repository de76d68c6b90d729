package plan

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"

	"nodejoin/plan/eval"
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
	// Dir is the folder that relative paths of the plan start from; "" = the plan's own. It is
	// for a plan that is checked before it is in its place.
	Dir string
	// Vars are values of variables by name, as given with --var. For a variable of
	// type string the text is the value, else it is read as an expression.
	Vars map[string]string
	// VarFiles are files of `name = value`, as given with --var-file. They win over
	// the files *.auto.joinvars in the plan's folder, which are read by themselves.
	VarFiles []string
	// Env looks up the controller's environment, for NODEJOIN_VAR_name and the
	// function env. nil = no variable is set.
	Env func(name string) (string, bool)
	// Agent returns the agent program for an OS and architecture; connection is the type of the
	// node's connection. It is called only where a recipe needs it. nil = such plans are
	// refused.
	Agent func(os, arch, connection string) (steps.Source, error)
	// Untrusted is for a plan of somebody else, such as that of a pull request: it reads no environment and no file
	// outside its folder.
	Untrusted bool
	// Limits bound what compiling may take; the zero value stands for DefaultLimits.
	Limits Limits
}

// Plan is a parsed plan: it is HCL, but may not be valid.
type Plan struct {
	opt    Options
	files  *source.Files
	blocks map[string][]*hcl.Block // by type, in order of files and lines
	alone  bool                    // one file was named, not its folder
	early  *eval.Diags             // problems of the structure, for Compile to report
	// lost are the types of blocks that occur, even if they are wrong.
	lost map[string]bool
	// broken: the text is not HCL, or is for another version; it cannot be compiled.
	broken bool
}

// Load reads a plan: one file, or every *.join.hcl of a directory. Its diagnostics are those
// that prevent compiling: text that is not HCL, a plan for another version of nodejoin. The
// Plan is never nil, so that its Files can show them. Everything else is found by Compile.
func Load(path string, opt Options) (*Plan, hcl.Diagnostics) {
	p := &Plan{opt: opt, files: &source.Files{Parser: hclparse.NewParser(), Relative: map[string]string{}},
		blocks: map[string][]*hcl.Block{}, early: eval.NewDiags(), lost: map[string]bool{}}
	d := eval.NewDiags()
	p.load(path, d)
	return p, d.Sorted()
}

// Files are the sources that diagnostics of this plan point into, by file name.
func (p *Plan) Files() map[string]*hcl.File { return p.files.Parser.Files() }

// Compile evaluates the plan and expands every node into its ordered steps. The
// result is nil when there are errors. After a Load with errors it does nothing.
// It may be called more than once, each time reading again what the plan reads.
func (p *Plan) Compile() (*Compiled, hcl.Diagnostics) {
	if p.broken {
		return nil, nil
	}
	limits := p.opt.Limits
	if limits == (Limits{}) {
		limits = DefaultLimits
	}
	c := newCompiler(p)
	return limits.within(&c.At, func() (*Compiled, hcl.Diagnostics) {
		c.Extend(p.early.List)
		out := c.run(p.alone)
		list := c.Sorted()
		if list.HasErrors() {
			return nil, list
		}
		return out, list
	})
}
