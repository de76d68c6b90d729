package eval

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/source"
	"nodejoin/steps"
)

// Scope evaluates the blocks of one plan and collects their diagnostics. It is for one
// goroutine.
type Scope struct {
	*Diags
	Files *source.Files
	Ctx   *hcl.EvalContext // var, local and the functions
	// At is the expression that is being evaluated; it may be read while the scope is at work.
	At  atomic.Pointer[hcl.Range]
	env func(name string) (string, bool)
	// Unvalued are the variables that have no value; see Inputs.
	Unvalued []string
	// Program runs a program on the controller; nil = none is run.
	Program func(Program) ([]byte, error)
	// FollowLogin is the login that stands for those of all follow blocks; nil = they are read.
	FollowLogin *steps.Login
	// Module unpacks a module from elsewhere and returns its folder; nil = none is read.
	Module func(source.Remote) (dir string, err error)
	// ModuleDigest is the digest of a module of which the plan gives none; "" = nobody knows it.
	ModuleDigest func(address string) (sha256 string, err error)

	outside   waiting
	contents  map[*hcl.Block]*content         // a block that is evaluated for many nodes is decoded once
	templates map[string]hclsyntax.Expression // by name and text of a file
	texts     map[string]fileText             // by name: a file is read once, and is the same for all
	rendering []string                        // the paths of the templates that are being rendered, the outermost first
}

// value evaluates an expression.
func (sc *Scope) value(e hcl.Expression, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	at := e.Range()
	sc.At.Store(&at)
	return e.Value(ctx)
}

// With returns a context with further values, as NAME.key.
func (sc *Scope) With(name string, attrs map[string]cty.Value) *hcl.EvalContext {
	ctx := sc.Ctx.NewChild()
	ctx.Variables = map[string]cty.Value{name: cty.ObjectVal(attrs)}
	return ctx
}

// fileText is the result of reading a file.
type fileText struct {
	text string
	err  error
}

// content is a block decoded by its spec. A block that is evaluated for many nodes
// is decoded once.
type content struct {
	attrs  hcl.Attributes
	blocks hcl.Blocks
	wrong  hcl.Diagnostics
}

// Waited is the time so far that the scope has waited for programs, which have bounds of their own.
func (sc *Scope) Waited() time.Duration {
	total := time.Duration(sc.outside.total.Load())
	if since := sc.outside.since.Load(); since != 0 {
		total += time.Since(time.Unix(0, since))
	}
	return total
}

// Run runs a program; Scope.Program is not nil.
func (sc *Scope) Run(p Program) (out []byte, err error) {
	sc.Outside(func() { out, err = sc.Program(p) })
	return out, err
}

// Outside does something whose time is not the plan's: it waits for other programs, which have bounds of their own.
func (sc *Scope) Outside(do func()) {
	start := time.Now()
	sc.outside.since.Store(start.UnixNano())
	defer func() {
		sc.outside.total.Add(int64(time.Since(start)))
		sc.outside.since.Store(0)
	}()
	do()
}
