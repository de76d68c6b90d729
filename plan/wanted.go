package plan

import (
	"nodejoin/plan/block"
	"nodejoin/plan/lock"
)

// wanted is an artifact that nodes of a platform install, and what the lock says of it.
type wanted struct {
	Artifact
	entry *lock.Entry // nil = the lock has none
	block *block.Artifact
}

// pinned reports whether the plan itself gives the digest.
func (w *wanted) pinned() bool { return w.block.Has("sha256") || w.block.Has("sha512") }
