package steps

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

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var hnsNetworkKind = Kind{Name: "hns_network", Place: OnHost, OS: "windows", Timeout: 3 * time.Minute, Doc: "a network of HNS that outlives boots; its making may cut the machine's connections for some seconds", Outputs: []string{"management_ip"},
	Undo: map[record.Prefix]Undo{record.HNSNetwork: {New: undoNetwork, Order: UndoOfPrograms, Snapshot: SnapshotNew}},
	New:  func() any { return &HNSNetwork{} }}

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
	Address string `json:"address,omitempty" doc:"of the adapter that its switch is made on; default that of the default route"`
}

func (n *HNSNetwork) validate() error {
	subnet, err := netip.ParsePrefix(n.Subnet)
	gateway, err2 := netip.ParseAddr(n.Gateway)
	switch {
	case n.Name == "":
		return Invalid("hns_network needs a name")
	case n.Type != "Overlay" && n.Type != "L2Bridge":
		return Invalid("hns_network %s: the type %q is neither Overlay nor L2Bridge", n.Name, n.Type)
	case err != nil || err2 != nil || !subnet.Contains(gateway):
		return Invalid("hns_network %s: %q is no network with the gateway %q in it", n.Name, n.Subnet, n.Gateway)
	case (n.Type == "Overlay") != (n.VNI != 0):
		return Invalid("hns_network %s: an Overlay has a vni, an L2Bridge has none", n.Name)
	}
	return nil
}

func (n *HNSNetwork) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	if err := n.validate(); err != nil {
		return Change{}, err
	}
	have, err := r.HNSNetwork(ctx, n.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Change{Action: ActionCreate, Reason: "connections may break for some seconds",
			Diffs: []Diff{{Name: "type", Want: n.Type}, {Name: "subnet", Want: n.Subnet}}}, nil
	case errors.Is(err, host.ErrUnsupported):
		return Change{}, &Error{Code: CodeInvalid, Summary: "no Host Networking Service", Detail: err.Error(),
			Remedy: "turn on the feature Containers: host { features = [\"Containers\"] } in the profile or node"}
	case err != nil:
		return Change{}, err
	case !strings.EqualFold(have.Type, n.Type) && n.ours(e):
		return Change{Action: ActionUpdate, Reason: "connections may break for some seconds", Diffs: []Diff{{Name: "type", Have: have.Type, Want: n.Type}}}, nil
	case !strings.EqualFold(have.Type, n.Type):
		return Change{}, &Error{Code: CodeFailed, Summary: "another HNS network of this name exists",
			Detail: fmt.Sprintf("HNS network %s, which nodejoin did not make, is of type %s and not %s", n.Name, have.Type, n.Type),
			Remedy: "remove it with the tool that made it, or do without the network in the plan"}
	case have.ManagementIP == "":
		return Change{Action: ActionWait, Reason: fmt.Sprintf("waits until HNS network %s has a management address", n.Name)}, nil
	}
	return Change{Outputs: map[string]string{"management_ip": have.ManagementIP}}, nil
}

// ours reports whether nodejoin made the network.
func (n *HNSNetwork) ours(e *Env) bool { return created(e, record.HNSNetwork.Of(n.Name)) }

func (n *HNSNetwork) Apply(ctx context.Context, h host.Host, e *Env, c Change) (Outcome, error) {
	have, err := h.HNSNetwork(ctx, n.Name)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Outcome{}, err
	}
	if there && n.ours(e) && !strings.EqualFold(have.Type, n.Type) {
		if err := h.DeleteHNSNetwork(ctx, n.Name); err != nil {
			return Outcome{}, err
		}
		there = false
	}
	if !there {
		if err := e.Claim(ctx, h, record.New{Key: record.HNSNetwork.Of(n.Name)}); err != nil {
			return Outcome{}, err
		}
		adapter, err := n.adapter(ctx, h, e)
		if err != nil {
			return Outcome{}, err
		}
		err = h.CreateHNSNetwork(ctx, host.HNSNetworkConfig{Name: n.Name, Type: n.Type, Subnet: n.Subnet, Gateway: n.Gateway, VNI: n.VNI, Adapter: adapter})
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return Outcome{}, err
		}
	}
	return (&HNSNetworkReady{Name: n.Name, Type: n.Type}).Apply(ctx, h, e, c)
}

// adapter is the one with the address, "" where that is one of a virtual switch already, on
// which no other can be made.
func (n *HNSNetwork) adapter(ctx context.Context, r host.Reader, e *Env) (string, error) {
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
	return "", &Error{Code: CodeFailed, Summary: "no adapter has the address", Detail: fmt.Sprintf("none of the machine's adapters has %s, on which HNS network %s is to be made", cmp.Or(n.Address, "an address with a default route"), n.Name),
		Remedy: "correct management_ip in the plan, or the machine's address"}
}

func undoNetwork(key record.Key, claim record.Claim) (Undoing, error) {
	name := key.Name
	return Undoing{
		Check: func(ctx context.Context, r host.Reader, e *Env) (Change, string, error) {
			_, err := r.HNSNetwork(ctx, name)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, host.ErrUnsupported):
				return Change{}, "", nil
			case err != nil:
				return Change{}, "", err
			case claim.Existed:
				return Change{}, "it was there before nodejoin", nil
			}
			return Change{Action: ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *Env) error { return h.DeleteHNSNetwork(ctx, name) },
	}, nil
}
