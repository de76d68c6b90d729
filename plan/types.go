// Package plan is the join-plan language: bytes of HCL in, typed values, ordered
// step specs and diagnostics with file, line and column out. It touches no host
// and no network.
package plan

import (
	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/lock"
	"nodejoin/plan/signature"
	"nodejoin/plan/source"
	"nodejoin/steps"
	"nodejoin/steps/waves"
)

// Compiled is a plan whose every node is an ordered list of step specs.
type Compiled struct {
	Dir string // folder of the plan files, absolute
	// Environment is the one that it was compiled for; "" = none.
	Environment string
	Cluster     *block.Cluster
	Nodes       []block.Node // sorted by name
	// Manifests are the objects that the manifests block asks for. Where it applies them,
	// each node has a step for each.
	Manifests []block.Manifest
	// Unvalued are the variables without a value; what depends on them is not in the other fields. See Options.
	Unvalued []string
	Rollout  Rollout
	// Logins are those by which artifacts are fetched.
	Logins []steps.Login
	// Moved are the names of nodes by names that they had.
	Moved   map[string]string
	Outputs []block.Output // in the order of the plan
	// Artifacts are what the nodes install, sorted by name and platform; without the agent.
	Artifacts []Artifact
	// Images are what the nodes run, sorted by name and platform. They are known with Options.Locking, and where the
	// lock has images.
	Images   []Image
	Lock     *lock.File // nil = the plan has none
	LockFile string     // path of the lock, whether it exists or not
	texts    func() []Text
	verify   *block.Verify
	root     *signature.Root

	Data []block.Data // what its data blocks have read, by address
	// Modules are those that are not beside the plan, one of each module block.
	Modules []source.Remote
	// Unread are addresses of data that was not read; what depends on it is not in the other fields. See Options.
	Unread []string
}

// Text is a file of a plan or of its modules, without the defaults of sensitive variables.
type Text struct {
	Name    string // as Source of steps has it, with "up" in place of ".."
	Content []byte
}

// Texts are the files of the plan and of its modules, by name.
func (c *Compiled) Texts() []Text { return c.texts() }

// Artifact is what the nodes of one platform install under one name.
type Artifact struct {
	Name     string
	OS, Arch string
	Version  string       // "" = no block gives one
	Address  string       // as the lock names its origin: https://..., mirror:FILE or file:PATH
	Upstream string       // its publisher's address, where the plan gives no other; "" = none is known
	Source   steps.Source // where nodes get it, with the digests that the plan itself gives
	From     steps.Source // where the lock has it from: Source, or upstream where the hosts have a mirror of their own
	// MirrorFile is its name in a mirror; "" = the plan says where it comes from.
	MirrorFile string
	Checksum   string    // address of its publisher's checksum file; "" = none, or the plan's digest counts
	Signed     *Signed   // how its publisher signs it; nil = not, or the plan's digest counts
	Range      hcl.Range // its block, or the cluster's where it has none
}

// Signed is how a publisher signs an artifact: with a bundle, or with a signature and a certificate.
type Signed struct {
	Bundle, Signature, Certificate string // addresses
	Own                            bool   // the plan says so, wherever the artifact comes from
	Who                            signature.Identity
}

// TrustRoot is whom the plan trusts for signatures.
func (c *Compiled) TrustRoot() *signature.Root { return c.root }

// Platform is the OS and architecture of the nodes: windows/amd64.
func (a Artifact) Platform() string { return a.OS + "/" + a.Arch }

// Rollout limits how Nodes that serve pods are changed.
type Rollout struct {
	MaxUnavailable int // Nodes out of service at once, including those that already are
	MaxFailures    int // failed hosts after which no further host is started
	waves.Limits
}

// What the blocks of a plan say is kept as they are decoded.
type (
	// Node is one machine to be joined.
	Node = block.Node
	// Manifest is a file of objects of the cluster, in YAML.
	Manifest = block.Manifest
	// Connection says how a node is reached.
	Connection = block.Connection
	// SSH is `connection "ssh"`.
	SSH = block.SSH
	// WinRM is `connection "winrm"`.
	WinRM = block.WinRM
	// Sandbox is `connection "sandbox"`: a machine in a folder.
	Sandbox = block.Sandbox
	// Cluster is the cluster that the nodes join.
	Cluster = block.Cluster
)
