package block

import (
	"net/netip"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// ClusterBlocks is the cluster block with the blocks that say what its nodes run.
type ClusterBlocks struct {
	*eval.Section
	Cluster
	complete     bool // nothing of it was wrong, so that nodes can be expanded
	RuntimeBlock *Runtime
	NetworkBlock *network
	Base         recipe.Input
	Pods         netip.Prefix // of IPv4
	Services     netip.Prefix
	// Pods6 and services6 are those of IPv6 of a cluster with both families.
	Pods6, services6 netip.Prefix
	PodsAt           hcl.Range // where pods is given, or the block
	// NodeMask is the length of the prefix of one node's pod network.
	NodeMask      int
	NodeMaskGiven bool
	JoinFile      *joinFile // of join "kubeconfig"
	Manifests     []Manifest
}

// Whole reports whether nothing of the cluster and of what its nodes run is wrong, so that
// nodes can be expanded.
func (k *ClusterBlocks) Whole() bool {
	return k.complete && k.OK && k.RuntimeBlock.OK && k.NetworkBlock.OK
}
