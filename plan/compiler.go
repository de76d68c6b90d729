package plan

import (
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/plan/lock"
	"nodejoin/plan/recipe"
	"nodejoin/plan/rule"
	"nodejoin/plan/signature"
	"nodejoin/plan/source"
	"nodejoin/steps"
)

// compiler is the state of one Compile.
type compiler struct {
	opt Options
	dir string // of the plan
	*block.Plan
	used map[string]bool // "var.x", "local.x", "profile.x", "artifact.x"

	// The lock, what it is about, and the plan's path as it was given.
	lock           *lock.File // nil = none
	lockFile, path string
	wanted         []wanted
	images         []Image
	implied        map[string]*block.Artifact // artifacts without a block, by name

	root    *signature.Root // see trustRoot
	agents  map[string]agent
	objects *rule.Objects

	// What is the same for many nodes, or many times for one.
	shapes map[shapeKey]*shape
	orders map[string][]int // of steps, see orderOf
	shared map[sharedSteps][]*block.Step

	// Room that each node uses again.
	added     map[string]int
	unordered []steps.Spec
	orderKey  []byte
}

type agent struct {
	source steps.Source
	err    error
}

func newCompiler(p *Plan) *compiler {
	scope := eval.NewScope(p.files, p.opt.Env)
	scope.Program, scope.FollowLogin = p.opt.Program, p.opt.FollowLogin
	if fetch := p.opt.Module; fetch != nil {
		scope.Module = func(r source.Remote) (dir string, err error) {
			scope.Outside(func() { dir, err = fetch(r) })
			return dir, err
		}
		scope.ModuleDigest = func(address string) (digest string, err error) {
			if m := p.locked.LookupModule(steps.ShowURL(address)); m != nil {
				digest = m.SHA256
			}
			if read := p.opt.ModuleDigest; read != nil {
				scope.Outside(func() { digest, err = read(address, digest) })
			}
			return digest, err
		}
	}
	d := &block.Plan{Scope: scope, Written: p.blocks, Lost: p.lost}
	return &compiler{Plan: d, opt: p.opt, dir: p.files.Dir, used: map[string]bool{},
		lock: p.locked, lockFile: p.lockAt, path: p.path, implied: map[string]*block.Artifact{},
		agents: map[string]agent{}, objects: rule.NewObjects(), shapes: map[shapeKey]*shape{}, orders: map[string][]int{},
		shared: map[sharedSteps][]*block.Step{}, added: map[string]int{}}
}

// sharedSteps is a step block that makes the same steps on all nodes of a system.
type sharedSteps struct {
	block *block.StepBlock
	os    string
}

// shapeKey is equal for machines that share a shape. The agent depends on the connection.
type shapeKey struct{ connection, recipe string }

// shape is the recipe of machines that differ in name and address only, with what
// is the same for all of them. Nodes of one block mostly have one.
type shape struct {
	*recipe.Shape
	made  rule.Made      // by its steps
	ports []recipe.Port  // of its programs
	index map[string]int // its steps by id
	// podCIDR is the Node's, which the gate on its registration gives; cty.NilVal = none does.
	podCIDR cty.Value
}
