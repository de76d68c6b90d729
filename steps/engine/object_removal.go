package engine

import "nodejoin/steps/kube"

// ObjectRemoval is an object of the cluster that the plan no longer names.
type ObjectRemoval struct {
	kube.Member
	Left string // why it stays; "" = it is deleted, or written
	// Finishes says why nothing is deleted and only the parent of the plan's set is written; "" = something is.
	Finishes string
	Err      error // of an apply: why it could not be deleted
}
