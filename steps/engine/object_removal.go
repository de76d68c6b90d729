package engine

import "nodejoin/steps/kube"

// ObjectRemoval is an object of the cluster that the plan no longer names.
type ObjectRemoval struct {
	kube.Member
	Left string // why it stays; "" = it is deleted, or written
	// Finishes says why nothing is deleted but the parent of the plan's set written; "" = it is not about that.
	Finishes string
	Err      error // of an apply: why it could not be deleted
}
