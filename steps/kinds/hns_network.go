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
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
	"nodejoin/steps/wait"
)

var hnsNetworkKind = steps.Kind{Name: "hns_network", Place: steps.OnHost, OS: "windows", Timeout: 5 * time.Minute,
	Doc:     "a persistent HNS network; creating it may cut the machine's connections for some seconds",
	Outputs: []string{"management_ip"},
	Undo: map[record.Prefix]steps.Undo{
		record.HNSNetwork: {Called: "HNS network", New: undoNetwork, Order: steps.UndoOfPrograms,
			Snapshot: steps.SnapshotNew, Carries: true},
		metadataRoutesPrefix: {Called: "routes to the cloud's metadata before HNS network", New: undoMetadataRoutes,
			Order: steps.UndoOfPrograms, Snapshot: steps.SnapshotNone}},
	New:    func() any { return &HNSNetwork{} },
	Claims: steps.Claims((*HNSNetwork).claims),
	Evidence: steps.Shows(func(n *HNSNetwork) []steps.Evidence {
		return []steps.Evidence{{HNSNetwork: n.Name}}
	})}

// HNSNetwork is a network of the Host Networking Service that has its management
// address. The first on an adapter makes its virtual switch, which takes the adapter from
// the machine for some seconds: the address is back, and connections can be made, when
// the network has its own. Outputs: management_ip.
//
// A network of the name and type that somebody else has made serves as well, and stays on
// leave. nodejoin's own has this subnet, too, and so has one that the program of a service uses:
// it is replaced while the service is stopped.
//
// The switch swallows the routes to the cloud's metadata. They are noted before it is made, and restored after it is
// made, after a boot and after a leave.
type HNSNetwork struct {
	Name    string `json:"name" doc:"its name, for example External" id:"true"`
	Type    string `json:"type" doc:"\"Overlay\" or \"L2Bridge\""`
	Subnet  string `json:"subnet" doc:"its network, for example 192.168.255.0/30"`
	Gateway string `json:"gateway,omitempty" doc:"address of the gateway in it; default its first address"`
	VNI     uint32 `json:"vni,omitempty" doc:"VXLAN network identifier, for type Overlay"`
	Address string `json:"address,omitempty" doc:"adapter address for its switch; default the default route's"`
	Service string `json:"service,omitempty" doc:"the service whose program uses it; stopped while it is replaced"`
}

func (n *HNSNetwork) claims(*steps.Env) []record.Key {
	return []record.Key{record.HNSNetwork.Of(n.Name), metadataRoutesPrefix.Of(n.Name)}
}

func (n *HNSNetwork) validate() error {
	switch {
	case n.Name == "":
		return steps.Invalid("hns_network needs a name")
	case n.Type != "Overlay" && n.Type != "L2Bridge":
		return steps.Invalid("hns_network %s: the type %q is neither Overlay nor L2Bridge", n.Name, n.Type)
	case (n.Type == "Overlay") != (n.VNI != 0):
		return steps.Invalid("hns_network %s: an Overlay has a vni, an L2Bridge has none", n.Name)
	case steps.HasRef(n.Subnet) || steps.HasRef(n.Gateway):
		return nil
	}
	subnet, err := netip.ParsePrefix(n.Subnet)
	if err != nil {
		return steps.Invalid("hns_network %s: %q is not a network", n.Name, n.Subnet)
	}
	if gateway, err := netip.ParseAddr(n.gateway()); err != nil || !subnet.Contains(gateway) {
		return steps.Invalid("hns_network %s: %q is not a network with the gateway %q in it", n.Name, n.Subnet, n.Gateway)
	}
	return nil
}

// gateway is the address of the gateway, "" where the subnet is none.
func (n *HNSNetwork) gateway() string {
	subnet, err := netip.ParsePrefix(n.Subnet)
	if n.Gateway != "" || err != nil {
		return n.Gateway
	}
	return subnet.Masked().Addr().Next().String()
}

// wrong says how a network is another than the wanted one; none = it is not.
func (n *HNSNetwork) wrong(e *steps.Env, have host.HNSNetwork) (out []steps.Diff) {
	if !strings.EqualFold(have.Type, n.Type) {
		out = append(out, steps.Diff{Name: "type", Have: have.Type, Want: n.Type})
	}
	if n.VNI != 0 && have.VNI != 0 && n.VNI != have.VNI { // HNS does not promise to return it
		out = append(out, steps.Diff{Name: "vni", Have: fmt.Sprint(have.VNI), Want: fmt.Sprint(n.VNI)})
	}
	made := n.Service != "" || n.ours(e) && len(have.Subnets) > 0
	if made && !steps.HasRef(n.Subnet) && !slices.Contains(have.Subnets, n.Subnet) {
		out = append(out, steps.Diff{Name: "subnet", Have: strings.Join(have.Subnets, ", "), Want: n.Subnet})
	}
	return out
}

// replaces reports whether a network that differs is replaced: nodejoin's own, and one that a program made for
// another subnet.
func (n *HNSNetwork) replaces(e *steps.Env, have host.HNSNetwork) bool {
	return n.ours(e) || n.Service != "" && strings.EqualFold(have.Type, n.Type)
}

// change is one that may cut connections, and stops the service.
func (n *HNSNetwork) change(a steps.Action, diffs ...steps.Diff) steps.Change {
	c := steps.Change{Action: a, Reason: "connections may break for some seconds", Diffs: diffs}
	if n.Service != "" {
		c.Touches = []steps.Touch{{Service: n.Service}}
	}
	return c
}

func (n *HNSNetwork) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := n.validate(); err != nil {
		return steps.Change{}, err
	}
	have, err := readNetwork(ctx, r, e, n.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n.change(steps.ActionCreate, steps.Diff{Name: "type", Want: n.Type},
			steps.Diff{Name: "subnet", Want: n.Subnet}), nil
	case errors.Is(err, host.ErrUnsupported):
		return steps.Change{}, &steps.Error{Code: steps.CodeInvalid, Summary: "no Host Networking Service",
			Detail: err.Error(),
			Remedy: "turn on the feature Containers: host { features = [\"Containers\"] } in the profile or node"}
	case err != nil:
		return steps.Change{}, err
	}
	wrong := n.wrong(e, have)
	switch {
	case len(wrong) > 0 && n.replaces(e, have):
		return n.change(steps.ActionUpdate, wrong...), nil
	case len(wrong) > 0:
		return steps.Change{}, &steps.Error{Code: steps.CodeFailed, Summary: "another HNS network of this name exists",
			Detail: fmt.Sprintf("HNS network %s, which nodejoin did not make, is of %s %s and not %s", n.Name,
				wrong[0].Name, wrong[0].Have, wrong[0].Want),
			Remedy: "remove it with the tool that made it, or do without the network in the plan"}
	case have.ManagementIP == "":
		return steps.Change{Action: steps.ActionWait,
			Reason: fmt.Sprintf("waits until HNS network %s has a management address", n.Name)}, nil
	}
	noted, err := n.noted(e)
	if err != nil {
		return steps.Change{}, err
	}
	c, err := noted.check(ctx, r)
	c.Outputs = map[string]string{"management_ip": have.ManagementIP}
	return c, err
}

// ours reports whether nodejoin made the network.
func (n *HNSNetwork) ours(e *steps.Env) bool { return steps.Created(e, record.HNSNetwork.Of(n.Name)) }

func (n *HNSNetwork) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	have, err := readNetwork(ctx, h, e, n.Name)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return steps.Outcome{}, err
	}
	if !there || len(n.wrong(e, have)) > 0 && n.replaces(e, have) {
		if err := n.make(ctx, h, e, there); err != nil {
			return steps.Outcome{}, err
		}
	}
	out, err := (&HNSNetworkReady{Name: n.Name, Type: n.Type}).gate().apply(ctx, h, e)
	if err != nil {
		return out, err
	}
	noted, err := n.noted(e)
	if err != nil {
		return out, err
	}
	return out, noted.restore(ctx, h, e)
}

// noted are the routes from before the network was made.
func (n *HNSNetwork) noted(e *steps.Env) (notedRoutes, error) {
	claim, _ := e.Record.Lookup(metadataRoutesPrefix.Of(n.Name))
	return record.Previous[notedRoutes](claim)
}

// note claims the routes that the switch of the network may swallow.
func (n *HNSNetwork) note(ctx context.Context, h host.Host, e *steps.Env) error {
	routes, err := metadataRoutes(ctx, h)
	if err != nil || len(routes) == 0 {
		return err
	}
	noted := notedRoutes{Address: cmp.Or(n.Address, e.Facts.ManagementIP), Routes: routes}
	return e.Claim(ctx, h, record.New{Key: metadataRoutesPrefix.Of(n.Name), Previous: noted})
}

// make makes the network, in place of one of its name where there is one, and of those that the step made for an
// earlier plan: two networks of one subnet may not be on a switch.
func (n *HNSNetwork) make(ctx context.Context, h host.Host, e *steps.Env, there bool) error {
	former, err := formerNetworks(ctx, h, e, n.Name)
	if err != nil {
		return err
	}
	if there {
		former = append(former, n.Name)
	}
	if n.Service != "" {
		if err := stopService(ctx, h, e, n.Service); err != nil {
			return err
		}
	}
	if err := n.note(ctx, h, e); err != nil {
		return err
	}
	if err := e.Claim(ctx, h, record.New{Key: record.HNSNetwork.Of(n.Name)}); err != nil {
		return err
	}
	for _, name := range former {
		if err := deleteNetwork(ctx, h, e, name); err != nil {
			return err
		}
	}
	return n.create(ctx, h, e)
}

// create makes the network. A switch may just have gone, by this step, the removal before it or an earlier run.
// HNS may then not find its adapter yet, so the adapter and the call are tried again for a while.
func (n *HNSNetwork) create(ctx context.Context, h host.Host, e *steps.Env) error {
	bound, cancel := context.WithTimeout(ctx, addressWait)
	defer cancel()
	var err error
	said := false
	waited := wait.Until(bound, lookMost, func() (bool, error) {
		config := host.HNSNetworkConfig{Name: n.Name, Type: n.Type, Subnet: n.Subnet, Gateway: n.gateway(), VNI: n.VNI}
		if config.Adapter, err = n.adapter(bound, h, e); err != nil {
			return true, nil //nolint:nilerr // create returns it
		}
		err = untilHNSAnswers(ctx, e, func() error { return h.CreateHNSNetwork(ctx, config) })
		if !errors.Is(err, host.ErrUnsettled) {
			return true, nil
		}
		if !said {
			said = true
			e.Progress(event.StepProgress{Note: "waits until HNS finds the adapter of the network"})
		}
		return false, nil
	})
	if errors.Is(err, fs.ErrExist) { // a call whose answer was lost has made it
		return nil
	}
	return cmp.Or(err, waited)
}

// adapter is the one with the address, "" where that is one of a virtual switch already, on
// which no other can be made. It waits until the address is back.
func (n *HNSNetwork) adapter(bound context.Context, r host.Reader, e *steps.Env) (string, error) {
	name, err := awaitAdapterWith(bound, r, e, cmp.Or(n.Address, e.Facts.ManagementIP))
	if strings.HasPrefix(name, "vEthernet") {
		return "", err
	}
	return name, err
}

func undoNetwork(key record.Key, claim record.Claim) (steps.Undoing, error) {
	name := key.Name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			_, err := readNetwork(ctx, r, e, name)
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
		Apply: func(ctx context.Context, h host.Host, e *steps.Env) error {
			return deleteNetwork(ctx, h, e, name)
		},
	}, nil
}
