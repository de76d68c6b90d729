package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var hnsNetworkKind = steps.Kind{Name: "hns_network", Place: steps.OnHost, OS: "windows", Timeout: 3 * time.Minute,
	Doc:     "a persistent HNS network; creating it may cut the machine's connections for some seconds",
	Outputs: []string{"management_ip"},
	Undo: map[record.Prefix]steps.Undo{record.HNSNetwork: {Called: "HNS network", New: undoNetwork,
		Order:    steps.UndoOfPrograms,
		Snapshot: steps.SnapshotNew}},
	New:    func() any { return &HNSNetwork{} },
	Claims: steps.Claims((*HNSNetwork).claims)}

// HNSNetwork is a network of the Host Networking Service that has its management
// address. The first on an adapter makes its virtual switch, which takes the adapter from
// the machine for some seconds: the address is back, and connections can be made, when
// the network has its own. Outputs: management_ip.
//
// A network of the name and type that somebody else has made serves as well, and stays on
// leave.
type HNSNetwork struct {
	Name    string `json:"name" doc:"its name, for example External" id:"true"`
	Type    string `json:"type" doc:"\"Overlay\" or \"L2Bridge\""`
	Subnet  string `json:"subnet" doc:"its network, for example 192.168.255.0/30"`
	Gateway string `json:"gateway" doc:"address of the gateway in it"`
	VNI     uint32 `json:"vni,omitempty" doc:"VXLAN network identifier, for type Overlay"`
	Address string `json:"address,omitempty" doc:"adapter address for its switch; default the default route's"`
}

func (n *HNSNetwork) claims(*steps.Env) []record.Key {
	return []record.Key{record.HNSNetwork.Of(n.Name)}
}

func (n *HNSNetwork) validate() error {
	subnet, err := netip.ParsePrefix(n.Subnet)
	gateway, err2 := netip.ParseAddr(n.Gateway)
	switch {
	case n.Name == "":
		return steps.Invalid("hns_network needs a name")
	case n.Type != "Overlay" && n.Type != "L2Bridge":
		return steps.Invalid("hns_network %s: the type %q is neither Overlay nor L2Bridge", n.Name, n.Type)
	case err != nil || err2 != nil || !subnet.Contains(gateway):
		return steps.Invalid("hns_network %s: %q is not a network with the gateway %q in it", n.Name, n.Subnet, n.Gateway)
	case (n.Type == "Overlay") != (n.VNI != 0):
		return steps.Invalid("hns_network %s: an Overlay has a vni, an L2Bridge has none", n.Name)
	}
	return nil
}

func (n *HNSNetwork) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := n.validate(); err != nil {
		return steps.Change{}, err
	}
	have, err := r.HNSNetwork(ctx, n.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return steps.Change{Action: steps.ActionCreate, Reason: "connections may break for some seconds",
			Diffs: []steps.Diff{{Name: "type", Want: n.Type}, {Name: "subnet", Want: n.Subnet}}}, nil
	case errors.Is(err, host.ErrUnsupported):
		return steps.Change{}, &steps.Error{Code: steps.CodeInvalid, Summary: "no Host Networking Service",
			Detail: err.Error(),
			Remedy: "turn on the feature Containers: host { features = [\"Containers\"] } in the profile or node"}
	case err != nil:
		return steps.Change{}, err
	case !strings.EqualFold(have.Type, n.Type) && n.ours(e):
		return steps.Change{Action: steps.ActionUpdate, Reason: "connections may break for some seconds",
			Diffs: []steps.Diff{{Name: "type", Have: have.Type, Want: n.Type}}}, nil
	case !strings.EqualFold(have.Type, n.Type):
		return steps.Change{}, &steps.Error{Code: steps.CodeFailed, Summary: "another HNS network of this name exists",
			Detail: fmt.Sprintf("HNS network %s, which nodejoin did not make, is of type %s and not %s", n.Name, have.Type,
				n.Type),
			Remedy: "remove it with the tool that made it, or do without the network in the plan"}
	case have.ManagementIP == "":
		return steps.Change{Action: steps.ActionWait,
			Reason: fmt.Sprintf("waits until HNS network %s has a management address", n.Name)}, nil
	}
	return steps.Change{Outputs: map[string]string{"management_ip": have.ManagementIP}}, nil
}

// ours reports whether nodejoin made the network.
func (n *HNSNetwork) ours(e *steps.Env) bool { return steps.Created(e, record.HNSNetwork.Of(n.Name)) }

func (n *HNSNetwork) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	have, err := h.HNSNetwork(ctx, n.Name)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return steps.Outcome{}, err
	}
	if there && n.ours(e) && !strings.EqualFold(have.Type, n.Type) {
		if err := h.DeleteHNSNetwork(ctx, n.Name); err != nil {
			return steps.Outcome{}, err
		}
		there = false
	}
	if !there {
		if err := e.Claim(ctx, h, record.New{Key: record.HNSNetwork.Of(n.Name)}); err != nil {
			return steps.Outcome{}, err
		}
		adapter, err := n.adapter(ctx, h, e)
		if err != nil {
			return steps.Outcome{}, err
		}
		err = h.CreateHNSNetwork(ctx, host.HNSNetworkConfig{Name: n.Name, Type: n.Type, Subnet: n.Subnet,
			Gateway: n.Gateway, VNI: n.VNI, Adapter: adapter})
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return steps.Outcome{}, err
		}
	}
	return (&HNSNetworkReady{Name: n.Name, Type: n.Type}).Apply(ctx, h, e, c)
}

// adapter is the one with the address, "" where that is one of a virtual switch already, on
// which no other can be made.
func (n *HNSNetwork) adapter(ctx context.Context, r host.Reader, e *steps.Env) (string, error) {
	list, err := r.Adapters(ctx)
	if err != nil {
		return "", err
	}
	want, err := netip.ParseAddr(cmp.Or(n.Address, e.Facts.ManagementIP))
	for _, a := range list {
		if err == nil && slices.ContainsFunc(a.Prefixes(), func(p netip.Prefix) bool { return p.Addr() == want }) {
			if strings.HasPrefix(a.Name, "vEthernet") {
				return "", nil
			}
			return a.Name, nil
		}
	}
	return "", &steps.Error{Code: steps.CodeFailed, Summary: "no adapter has the address",
		Detail: fmt.Sprintf("none of the machine's adapters has %s, on which HNS network %s is to be made",
			cmp.Or(n.Address, "an address with a default route"), n.Name),
		Remedy: "correct management_ip in the plan, or the machine's address"}
}

func undoNetwork(key record.Key, claim record.Claim) (steps.Undoing, error) {
	name := key.Name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			_, err := r.HNSNetwork(ctx, name)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, host.ErrUnsupported):
				return steps.Change{}, "", nil
			case err != nil:
				return steps.Change{}, "", err
			case claim.Existed:
				return steps.Change{}, "it was there before nodejoin", nil
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error { return h.DeleteHNSNetwork(ctx, name) },
	}, nil
}
