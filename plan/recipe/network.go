package recipe

import (
	"fmt"

	"nodejoin/plan/compat"
)

// Network is the pod network.
type Network struct {
	Kind    string // "flannel"
	Version string // "0.28.9"
	Backend string // "vxlan"
	VNI     uint32 // 4096
	Port    uint16 // 4789
}

// Bounds of a VXLAN network identifier on Windows. The lower one is flannel's
// (pkg/backend/vxlan/vxlan_windows.go, defaultVNI); the upper one is that of the
// 16 bits to which it cuts the VNI that it announces to other nodes (newSubnetAttrs).
const (
	minVNI = 4096
	maxVNI = 1<<16 - 1
)

// vxlanPort is the only port that flannel takes on Windows (vxlan_windows.go).
const vxlanPort = 4789

func checkNetwork(in Input) error {
	n := in.Network
	switch {
	case n.Kind != "flannel":
		return &UnsupportedError{"network", fmt.Sprintf("%q is not known; flannel is", n.Kind)}
	case n.Backend != "vxlan":
		return &UnsupportedError{"network", fmt.Sprintf("the flannel backend %q is not known; vxlan is", n.Backend)}
	case n.VNI < minVNI || n.VNI > maxVNI:
		return &UnsupportedError{"network", fmt.Sprintf("flannel on Windows needs a VNI from %d to %d, not %d, and the same one on every node", minVNI, maxVNI, n.VNI)}
	case n.Port != vxlanPort:
		return &UnsupportedError{"network", fmt.Sprintf("flannel on Windows can use port %d only, not %d", vxlanPort, n.Port)}
	}
	return nil
}

// networkArtifacts names the artifacts of the pod network.
func networkArtifacts(Input) []string {
	return []string{compat.CNIPlugins, compat.FlannelCNI, compat.Flanneld}
}
