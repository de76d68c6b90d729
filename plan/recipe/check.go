package recipe

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// Check rejects what no recipe supports. The compiler reports most of it earlier and with a position; these
// checks also protect direct callers.
func Check(in Input) error {
	if err := errors.Join(checkRuntime(in), checkNetwork(in), checkJoin(in)); err != nil {
		return err
	}
	switch in.OS {
	case "windows":
	case "linux":
		if err := checkLinux(in); err != nil {
			return err
		}
	default:
		return &UnsupportedError{"node", fmt.Sprintf("no recipe for OS %q", in.OS)}
	}
	if u, err := url.Parse(in.APIServer); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("api_server %q is not an https URL", in.APIServer)
	}
	return nil
}

func checkRuntime(in Input) error {
	switch in.Runtime.Kind {
	case "containerd":
	case "docker", "mcr":
		if in.OS != "windows" {
			return &UnsupportedError{"runtime", fmt.Sprintf("%s is not supported on %s; use containerd",
				in.Runtime.Kind, in.OS)}
		}
	default:
		return &UnsupportedError{"runtime",
			fmt.Sprintf("unknown runtime %q; use containerd, docker or mcr", in.Runtime.Kind)}
	}
	return nil
}

// Bounds of a VXLAN network identifier on Windows. The lower one is flannel's
// (pkg/backend/vxlan/vxlan_windows.go, defaultVNI); the upper one follows from the 16 bits to which it
// truncates the VNI that it announces to other nodes (newSubnetAttrs).
const (
	minVNI = 4096
	maxVNI = 1<<16 - 1
)

// vxlanPort is the only port that flannel accepts on Windows (vxlan_windows.go).
const vxlanPort = 4789

func checkNetwork(in Input) error {
	n := in.Network
	refuse := func(why string, args ...any) error { return &UnsupportedError{"network", fmt.Sprintf(why, args...)} }
	switch n.Kind {
	case "none":
		return nil
	case "flannel":
	default:
		return refuse("unknown network %q; use flannel or none", n.Kind)
	}
	switch {
	case !slices.Contains(Backends(), n.Backend):
		return refuse("unknown flannel backend %q; use vxlan or host-gw", n.Backend)
	case !slices.Contains(Delegates(n.Backend), n.delegate()):
		return refuse("the CNI plugin %q does not support the backend %s", n.Delegate, n.Backend)
	case n.Backend == HostGW:
		return nil
	case n.VNI < minVNI || n.VNI > maxVNI:
		return refuse("flannel on Windows needs a VNI from %d to %d, not %d, the same on every node", minVNI, maxVNI, n.VNI)
	case n.Port != vxlanPort:
		return refuse("flannel on Windows can use port %d only, not %d", vxlanPort, n.Port)
	}
	return nil
}

func checkJoin(in Input) error {
	if !slices.Contains(JoinKinds, in.Join.Kind) {
		return &UnsupportedError{"cluster", fmt.Sprintf("unknown join %q", in.Join.Kind)}
	}
	return nil
}

// checkLinux rejects what this recipe does not support and others do.
func checkLinux(in Input) error {
	switch {
	case in.Runtime.Kind != "containerd":
		return &UnsupportedError{"runtime", fmt.Sprintf("Linux nodes support containerd only, not %q", in.Runtime.Kind)}
	case in.Join.Kind == "kubeconfig":
		return &UnsupportedError{"cluster",
			`Linux nodes support join "bootstrap_token" and "kubeadm" only, not "kubeconfig"`}
	}
	return nil
}
