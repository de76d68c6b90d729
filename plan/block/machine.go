package block

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/names"
	"nodejoin/plan/recipe"
	"nodejoin/steps/kube"
)

// Machine is one node with what its expansion needs besides the result.
type Machine struct {
	*eval.Section // the node block, for this machine
	Node
	block   *hcl.Block
	key     string // of for_each
	module  string // address of the module that the block is in; "" = it is in the plan
	Profile string // address of the one that the block names; "" = none
	Range   hcl.Range
	Reached hcl.Range // its connection block
	Bad     bool      // something of it was reported; it is not expanded
	IP      string
	IP6     string    // address of IPv6; "" = none
	Mirror  string    // address of one near it; "" = that of the plan
	IPAt    hcl.Range // where the plan gives its address, if it does
	IP6At   hcl.Range // where it gives that of IPv6
	MaxPods int
	// OwnMaxPods and InheritedMaxPods are those of the block and of its profile; 0 = not given.
	OwnMaxPods, InheritedMaxPods int
	Conn                         *eval.Section // the connection block
	GivenLabels                  map[string]string
	GivenTaints                  []kube.Taint
	Components                   map[string]component
	GivenBuild                   string // "" = not known before the machine is asked; of a sandbox its connection has it
	Vars                         cty.Value
	Waive                        []string
	Said                         Settings // blocks of settings, of the node and its profile
	RecipeSettings               recipe.Settings
	SettingAt                    map[string]hcl.Range // where the setting stands that a step comes from
}

// Forget drops what only rules use: for thousands of machines it is as much as all their steps.
// The place of the node block remains.
func (m *Machine) Forget() { m.Section, m.Conn, m.Said = nil, nil, nil }

// longestNodeName is the longest value of a label, since the kubelet makes a label of the name
// (kubernetes pkg/kubelet/kubelet_node_status.go, initialNode). The API would take 253.
const longestNodeName = 63

// decodeNodes makes one machine of a node block, or with for_each or count several. whole is false where there may be
// more or others, because something is wrong or not known.
func decodeNodes(sc *eval.Scope, b *hcl.Block, profiles profileSet, version string,
) (out []*Machine, whole bool) {
	before := sc.Errors()
	whole = true
	attrs, _ := b.Body.JustAttributes() // wrong ones are reported when the block is decoded
	each, count := attrs["for_each"], attrs["count"]
	one := func(ctx *hcl.EvalContext, key, name string) *Machine {
		m := decodeNode(sc, b, ctx, name, profiles, version)
		m.block, m.key = b, key
		return m
	}
	switch {
	case each != nil && count != nil:
		sc.Fail(count.NameRange, "arguments exclude each other", "A node block has for_each or count, not both.")
	case each != nil:
		elements, known := sc.ForEach(each, sc.Ctx)
		if whole = known; !known {
			one(sc.With("each", eval.AnyElement), "", "") // to find its mistakes
		}
		for _, e := range elements {
			each := map[string]cty.Value{"key": cty.StringVal(e.Key), "value": e.Value}
			out = append(out, one(sc.With("each", each), e.Key, e.Key))
		}
	case count != nil:
		for i := range nodeCount(sc, count) {
			out = append(out, one(sc.With("count", map[string]cty.Value{"index": cty.NumberIntVal(i)}), "",
				b.Labels[0]+"-"+strconv.FormatInt(i, 10)))
		}
	default:
		out = append(out, one(sc.Ctx, "", b.Labels[0]))
	}
	return out, whole && sc.Errors() == before
}

// nodeCount returns the argument "count"; 0 if it is wrong.
func nodeCount(sc *eval.Scope, a *hcl.Attribute) int64 {
	v, _, o := sc.Evaluate(a.Expr, sc.Ctx, "count", cty.Number, eval.Allow{})
	if o == eval.IsNull {
		sc.Fail(a.Expr.Range(), "missing value",
			"The argument \"count\" is null here. It takes a whole number from 0 to %d.",
			eval.MaxInstances)
	}
	if o != eval.IsValue {
		return 0
	}
	n, exact := v.AsBigFloat().Int64()
	if exact != 0 || n < 0 || n > eval.MaxInstances {
		sc.Fail(a.Expr.Range(), "number out of range", "The argument \"count\" takes a whole number from 0 to %d.",
			eval.MaxInstances)
		return 0
	}
	return n
}

// decodeNode reads a node block for one machine, and lays it over its profile.
func decodeNode(sc *eval.Scope, b *hcl.Block, ctx *hcl.EvalContext, name string, profiles profileSet,
	version string) *Machine {
	s := sc.Section(Root("node"), b, ctx)
	m := &Machine{Section: s, Range: b.DefRange}
	m.Name = s.StrOr("name", name)
	m.Address, m.Source = "node."+m.Name, sc.Files.Place(b.DefRange)
	own := machineArgs(s, ctx, version)
	base := &Profile{}
	used, found := profiles.named(s, "profile")
	m.Profile = used
	if found {
		base = profiles.all[used]
	}
	all := own.over(base)
	m.OS, m.Arch, m.DataDir, m.MaxPods = all.OS, cmp.Or(all.arch, "amd64"), all.dataDir, all.maxPods
	m.OwnMaxPods, m.InheritedMaxPods = own.maxPods, base.maxPods
	m.GivenBuild, m.Waive, m.OnFailure = all.build, all.waive, all.onFailure
	m.GivenLabels, m.GivenTaints, m.Components, m.Said = all.labels, all.taints, all.components, all.settings
	m.Vars = nodeVars(s, ctx)
	nodeName(m)
	if m.OS == "" && !s.Has("os") && !s.Misspelt("os") && !s.Misspelt("profile") && (!s.Has("profile") || base.known) {
		sc.FailOn(m.Name, b.DefRange, "missing argument",
			"Node %q has no operating system. Give os = \"windows\" or os = \"linux\" here or in its profile.", m.Name)
		s.OK = false
	}
	if !slices.Contains(systems, m.OS) {
		m.OS = "" // which was reported
	}
	if !slices.Contains(architectures, m.Arch) {
		s.OK = false
	}
	m.Interface, m.Mirror = all.adapter, all.mirror
	nodeAddresses(s, m)
	if m.DataDir != "" && m.OS != "" {
		if why := names.BadPath(m.OS, m.DataDir); why != "" {
			s.Fail("data_dir", "invalid path", "%q cannot be a folder on %s: %s.", m.DataDir, m.OS, why)
		}
	}
	decodeConnection(s, b, ctx, m)
	return m
}

// nodeName checks the name of the Node.
func nodeName(m *Machine) {
	if m.Name == "" || len(m.Name) <= longestNodeName && names.IsDNS(m.Name) {
		return
	}
	why := "Names of Nodes have lower-case letters, digits, '-' and '.', and begin and end with a letter or digit " +
		"(RFC 1123)."
	if low := strings.ToLower(m.Name); low != m.Name && names.IsDNS(low) {
		why += " Use " + strconv.Quote(low) + ": the kubelet writes names in lower case."
	}
	if len(m.Name) > longestNodeName {
		why += fmt.Sprintf(" This one has %d characters, and the kubelet gives its Node a label with it "+
			"(kubernetes.io/hostname), which has %d at most.", len(m.Name), longestNodeName)
	}
	m.FailAt(m.At("name"), "invalid node name", "%q cannot be the name of a Node. %s", m.Name, why)
}

// nodeAddresses reads the machine's addresses in the management network, which its kubelet reports.
func nodeAddresses(s *eval.Section, m *Machine) {
	m.IP = s.Str("management_ip")
	m.ManagementIP = m.IP
	if text := m.IP; text != "" {
		m.Interface = "" // the address says which
		if s.Has("interface") {
			s.Fail("interface", "arguments exclude each other", "A node block has management_ip or interface, not both: the "+
				"adapter is the one that has the address. Remove one of them.")
		}
		ip, err := netip.ParseAddr(text)
		if err != nil || !ip.Is4() {
			s.Fail("management_ip", "invalid address", "%q is not an IPv4 address.", text)
		} else {
			m.IPAt = s.At("management_ip")
		}
	}
	if text := s.Str("management_ip6"); text != "" {
		m.IP6, m.IP6At = address6(s, "management_ip6", text), s.At("management_ip6")
	}
}

// nodeVars returns the values that steps read as self.vars.NAME. They may be sensitive.
func nodeVars(s *eval.Section, ctx *hcl.EvalContext) cty.Value {
	a := s.Attrs["vars"]
	if a == nil {
		return cty.EmptyObjectVal
	}
	v, o := s.Scope.EvaluateMarked(a.Expr, ctx, "vars", cty.DynamicPseudoType, eval.Allow{Sensitive: true})
	switch {
	case o == eval.IsNull:
		return cty.EmptyObjectVal
	case o == eval.IsWrong:
		s.OK = false
		return cty.DynamicVal
	case !v.Type().IsMapType() && !v.Type().IsObjectType():
		s.Fail("vars", "wrong type",
			"The argument \"vars\" wants a map or an object: values of this machine that steps read as self.vars.NAME.")
		return cty.DynamicVal
	}
	return v
}

// decodeConnection reads how a machine is reached.
func decodeConnection(s *eval.Section, b *hcl.Block, ctx *hcl.EvalContext, m *Machine) {
	sc := s.Scope
	blocks := s.Blocks.OfType("connection")
	if len(blocks) == 0 {
		s.OK = false
		if !eval.Lost(b.Body, s.Spec, "connection") {
			sc.FailOn(m.Name, b.DefRange, "missing block",
				"Node %q has no connection. Add: connection \"ssh\" { host = \"...\" }.", m.Name)
		}
		return
	}
	cb := blocks[0]
	spec := sc.Kind(Root("node").Child("connection"), cb)
	if spec == nil {
		s.OK = false
		return
	}
	m.Conn = sc.Section(spec, cb, ctx)
	m.Connection = Connection{Type: cb.Labels[0], Source: sc.Files.Place(cb.DefRange)}
	m.Reached = cb.DefRange
	switch m.Connection.Type {
	case "ssh":
		m.Connection.SSH = decodeSSH(m.Conn)
		if m.Connection.SSH.Become = decodeBecome(m.Conn, ctx); m.Connection.SSH.Become != nil && m.OS == "windows" {
			m.Conn.FailAt(m.Conn.Blocks.OfType("become")[0].DefRange, "block without effect", "Node %q is a Windows machine, "+
				"which has no sudo: the agent has the rights of the user that logs in. Remove the block, and log in as an "+
				"administrator.", m.Name)
		}
	case "winrm":
		if m.Connection.WinRM = decodeWinRM(m.Conn); m.OS == "linux" {
			m.Conn.FailAt(cb.DefRange, "connection without machine", "Node %q is a Linux machine, and WinRM is a service of "+
				"Windows. Use connection \"ssh\".", m.Name)
		}
	case "sandbox":
		m.Connection.Sandbox = decodeSandbox(m.Conn, m)
	}
	s.OK = s.OK && m.Conn.OK
}

// decodeSandbox reads connection "sandbox".
func decodeSandbox(s *eval.Section, m *Machine) *Sandbox {
	box := &Sandbox{Build: s.Str("build"), IP: s.Str("ip"), IP6: s.Str("ip6"), Capacity: s.Int("capacity", 1, 1<<50, 0)}
	if p := s.Str("path"); p != "" {
		box.Path = s.Scope.Files.Home(p)
	}
	if box.Build != "" && !compat.ValidBuild(box.Build) {
		s.Fail("build", "invalid build", "%q is not a Windows build. Write it as 10.0.20348.", box.Build)
	}
	if box.IP != "" {
		if ip, err := netip.ParseAddr(box.IP); err != nil || !ip.Is4() {
			s.Fail("ip", "invalid address", "%q is not an IPv4 address.", box.IP)
		} else if m.IP == "" {
			m.IPAt = s.At("ip")
		}
	}
	if box.IP6 != "" {
		box.IP6 = address6(s, "ip6", box.IP6)
	}
	return box
}

// IPv4 is the machine's address in the management network; the zero Addr if the plan has none.
func (m *Machine) IPv4() netip.Addr {
	text := m.IP
	if box := m.Connection.Sandbox; text == "" && box != nil {
		text = box.IP
	}
	ip, _ := netip.ParseAddr(text)
	return ip
}

// GivenAddress is an address that the plan gives a machine, with its place.
type GivenAddress struct {
	IP netip.Addr
	At hcl.Range
	Of *Machine
}

// Addresses are all the addresses of the machine that the plan gives.
func (m *Machine) Addresses() (out []GivenAddress) {
	if ip := m.IPv4(); ip.IsValid() {
		out = append(out, GivenAddress{ip, m.IPAt, m})
	}
	if ip, err := netip.ParseAddr(m.IP6); err == nil {
		out = append(out, GivenAddress{ip, m.IP6At, m})
	}
	return out
}
