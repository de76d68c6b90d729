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

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// sourceVIPPrefix is that of the claims.
const sourceVIPPrefix record.Prefix = "source_vip"

var sourceVIPKind = steps.Kind{Name: "source_vip", Place: steps.OnHost,
	Doc:     "an address of the node's pod network, reserved in the host-local store for kube-proxy",
	Outputs: []string{"address"},
	Undo: map[record.Prefix]steps.Undo{sourceVIPPrefix: {Called: "address reserved in", New: undoSourceVIP,
		Snapshot: steps.SnapshotNew}},
	New:    func() any { return &SourceVIP{} },
	Claims: steps.Claims((*SourceVIP).claims)}

// SourceVIP is a reservation in the store of the host-local IPAM plugin
// (containernetworking/plugins, plugins/ipam/host-local/backend/disk). Outputs: address.
// A reservation of ours outside Subnet, left by an earlier join, is removed.
type SourceVIP struct {
	Dir       string `json:"dir" doc:"dataDir of host-local, for example C:\\var\\lib\\cni\\networks" path:"true"`
	Network   string `json:"network" doc:"name of the CNI network, for example flannel.4096"`
	Subnet    string `json:"subnet" doc:"the node's pod CIDR"`
	Container string `json:"container,omitempty" doc:"holder of the reservation, default kube-proxy"`
	Interface string `json:"interface,omitempty" doc:"interface of the reservation, default source-vip"`
}

// The store of host-local, v1.9.1 backend/disk/backend.go: one file per address,
// named by it, holds holder, line break and interface, and the line break is this
// one on every OS. lastReserved of range 0 holds the address given last, without a
// line break; the next allocation starts behind it. Creation is exclusive, so a
// reservation needs no lock against a plugin that runs at the same time.
const (
	storeLineBreak = "\r\n"
	lastReserved   = "last_reserved_ip.0"
)

// maxReservation bounds what is read of a file of the store (bytes).
const maxReservation = 4 << 10

func (v *SourceVIP) container() string         { return cmp.Or(v.Container, "kube-proxy") }
func (v *SourceVIP) ifname() string            { return cmp.Or(v.Interface, "source-vip") }
func (v *SourceVIP) key() string               { return v.container() + storeLineBreak + v.ifname() }
func (v *SourceVIP) store(e *steps.Env) string { return host.Join(e.Facts.OS, v.Dir, v.Network) }

func (v *SourceVIP) claims(e *steps.Env) []record.Key {
	return []record.Key{sourceVIPPrefix.Of(v.store(e))}
}

func (v *SourceVIP) path(e *steps.Env, a netip.Addr) string {
	name := a.String()
	if e.Facts.OS == "windows" {
		name = strings.ReplaceAll(name, ":", "_") // GetEscapedPath of the store
	}
	return host.Join(e.Facts.OS, v.store(e), name)
}

// IPStore is the store as observed.
type IPStore struct {
	there bool
	held  map[netip.Addr]bool // true: the reservation is ours
	last  netip.Addr          // zero when there is none or it cannot be read as host-local does
}

// Observe reads the store of the network.
func (v *SourceVIP) Observe(ctx context.Context, r host.Reader, e *steps.Env) (IPStore, error) {
	s := IPStore{held: map[netip.Addr]bool{}}
	entries, err := r.List(ctx, v.store(e))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.there = true
	for _, fi := range entries {
		name := fi.Name
		if e.Facts.OS == "windows" {
			name = strings.ReplaceAll(name, "_", ":")
		}
		addr, err := netip.ParseAddr(name)
		last := fi.Name == lastReserved
		if fi.Dir || err != nil && !last {
			continue
		}
		f, err := host.ReadFile(ctx, r, host.Join(e.Facts.OS, v.store(e), fi.Name), maxReservation)
		if err != nil {
			return s, err
		}
		if f == nil {
			continue // released meanwhile
		}
		if last {
			s.last, _ = netip.ParseAddr(string(f.Content))
		} else {
			s.held[addr] = v.owns(string(f.Content))
		}
	}
	return s, nil
}

// owns reports whether a file's content is a reservation of ours. host-local takes
// the holder alone, as its earlier versions wrote it, for a match too.
func (v *SourceVIP) owns(content string) bool {
	c := strings.ReplaceAll(strings.TrimSpace(content), "\r\n", "\n")
	return c == v.container()+"\n"+v.ifname() || c == v.container()
}

// Diff says which address is reserved, if any, and which reservations are stale.
func (v *SourceVIP) Diff(s IPStore, subnet netip.Prefix) (c steps.Change, stale []netip.Addr) {
	var mine []netip.Addr
	for a, ours := range s.held {
		switch {
		case !ours:
		case subnet.Contains(a):
			mine = append(mine, a)
		default:
			stale = append(stale, a)
		}
	}
	slices.SortFunc(mine, netip.Addr.Compare)
	slices.SortFunc(stale, netip.Addr.Compare)
	if len(mine) > 0 {
		c.Outputs = map[string]string{"address": mine[0].String()}
	}
	switch {
	case len(mine) > 0 && len(stale) == 0:
		return c, nil
	case len(stale) > 0:
		c.Action = steps.ActionUpdate
		want := "an address of " + subnet.String()
		if len(mine) > 0 {
			want = mine[0].String()
		}
		c.Diffs = []steps.Diff{{Name: "address", Have: JoinAddrs(stale), Want: want}}
		c.Reason = "reserved outside of the pod network, by an earlier join"
	default:
		c.Action = steps.ActionCreate
		c.Diffs = []steps.Diff{{Name: "address", Want: "an address of " + subnet.String()}}
	}
	return c, stale
}

// JoinAddrs lists addresses for people.
func JoinAddrs(addrs []netip.Addr) string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}

func (v *SourceVIP) subnet() (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v.Subnet)
	if err != nil {
		return p, steps.Invalid("subnet %q is not a CIDR: %v", v.Subnet, err)
	}
	// host-local refuses these too (Range.Canonicalize).
	if p = p.Masked(); p.Bits() > p.Addr().BitLen()-2 {
		return p, steps.Invalid("subnet %s is too small to reserve an address in", p)
	}
	if v.Network == "" || strings.ContainsAny(v.Network, `/\`) {
		return p, steps.Invalid("%q cannot be the name of a network", v.Network)
	}
	return p, nil
}

func (v *SourceVIP) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if steps.HasRef(v.Subnet + v.Network + v.Dir) {
		return steps.Change{Action: steps.ActionUnknown, Reason: "the pod network of the node is not known yet",
			Diffs: []steps.Diff{{Name: "address", Want: "an address of " + v.Subnet}}}, nil
	}
	subnet, err := v.subnet()
	if err != nil {
		return steps.Change{}, err
	}
	s, err := v.Observe(ctx, r, e)
	if err != nil {
		return steps.Change{}, err
	}
	c, _ := v.Diff(s, subnet)
	return c, nil
}

func (v *SourceVIP) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	subnet, err := v.subnet()
	if err != nil {
		return steps.Outcome{}, err
	}
	s, err := v.Observe(ctx, h, e)
	if err != nil {
		return steps.Outcome{}, err
	}
	claims := []record.New{{Key: sourceVIPPrefix.Of(v.store(e)), Detail: v.key()}}
	if !s.there {
		parents, err := e.Parents(ctx, h, host.Join(e.Facts.OS, v.store(e), lastReserved))
		if err != nil {
			return steps.Outcome{}, err
		}
		claims = append(parents, claims...)
	}
	if err := e.Claim(ctx, h, claims...); err != nil {
		return steps.Outcome{}, err
	}
	if !s.there {
		if err := h.Mkdir(ctx, v.store(e), host.AccessDefault); err != nil {
			return steps.Outcome{}, err
		}
	}
	c, stale := v.Diff(s, subnet)
	for _, a := range stale {
		if err := h.Remove(ctx, v.path(e, a)); err != nil {
			return steps.Outcome{}, err
		}
	}
	if len(c.Outputs) > 0 {
		return steps.Outcome{}, nil
	}
	return steps.Outcome{}, v.reserve(ctx, h, e, s, subnet)
}

// noteLast notes an address as the one given out last. Never backwards: what was given out and released lately
// is not given out again soon.
func (v *SourceVIP) noteLast(ctx context.Context, h host.Host, e *steps.Env, s IPStore, subnet netip.Prefix,
	a netip.Addr) error {
	if s.last.IsValid() && subnet.Contains(s.last) && !s.last.Less(a) {
		return nil
	}
	opt := host.WriteOptions{}
	if e.Facts.OS != "windows" {
		opt.Access = host.AccessPrivate // 0600, as host-local writes it
	}
	return h.WriteFile(ctx, host.Join(e.Facts.OS, v.store(e), lastReserved), strings.NewReader(a.String()), opt)
}

// reserve takes the lowest free address; one that a plugin takes first is skipped. The note comes first: a run that
// is killed after the reservation would find nothing to do.
func (v *SourceVIP) reserve(ctx context.Context, h host.Host, e *steps.Env, s IPStore, subnet netip.Prefix) error {
	for a := range usable(subnet) {
		if _, taken := s.held[a]; taken {
			continue
		}
		if err := v.noteLast(ctx, h, e, s, subnet, a); err != nil {
			return err
		}
		err := h.CreateExclusive(ctx, v.path(e, a), []byte(v.key()))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return err
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "no free address",
		Detail: fmt.Sprintf("every address of %s is reserved in %s", subnet, v.store(e)),
		Remedy: "remove the files of pods that are gone from that folder; host-local leaves them behind when a node " +
			"restarts"}
}

// usable are the addresses of a subnet that host-local gives out: neither the
// network's own nor the gateway's, which is the next one, nor the last (IPv4: broadcast).
func usable(subnet netip.Prefix) func(yield func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		gateway := subnet.Addr().Next()
		for a := gateway.Next(); subnet.Contains(a) && subnet.Contains(a.Next()); a = a.Next() {
			if !yield(a) {
				return
			}
		}
	}
}

// undoSourceVIP removes the reservations of the holder that Detail names. The note of
// the address given last goes with the last reservation, if the store was nodejoin's.
func undoSourceVIP(key record.Key, claim record.Claim) (steps.Undoing, error) {
	store := key.Name
	container, ifname, _ := strings.Cut(claim.Detail, storeLineBreak)
	v := &SourceVIP{Container: container, Interface: ifname}
	held := func(ctx context.Context, r host.Reader, e *steps.Env) (paths []string, err error) {
		v.Dir, v.Network = host.Dir(e.Facts.OS, store), host.Base(e.Facts.OS, store)
		s, err := v.Observe(ctx, r, e)
		others := 0
		for a, mine := range s.held {
			if mine {
				paths = append(paths, v.path(e, a))
			} else {
				others++
			}
		}
		dir, ok := e.Record.Lookup(record.Directory.Of(store))
		storeCreated := ok && !dir.Existed // also once the folder itself has been undone
		if err != nil || others > 0 || !storeCreated {
			return paths, err
		}
		last := host.Join(e.Facts.OS, store, lastReserved)
		there, err := host.Exists(ctx, r, last)
		if there {
			paths = append(paths, last)
		}
		if err != nil {
			return nil, err
		}
		temps, err := tempsOf(ctx, r, last)
		return append(paths, temps...), err
	}
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			paths, err := held(ctx, r, e)
			if err != nil || len(paths) == 0 {
				return steps.Change{}, "", err
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, e *steps.Env) error {
			paths, err := held(ctx, h, e)
			for _, p := range paths {
				if err == nil {
					err = h.Remove(ctx, p)
				}
			}
			return err
		},
	}, nil
}
