package plan

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps/kube"
)

// machine is one node with what its expansion needs besides the result.
type machine struct {
	Node
	label        string // of the node block
	at           hcl.Range
	reached      hcl.Range // its connection block
	bad          bool      // something of it was reported; it is not expanded
	managementIP string
	management6  string    // address of IPv6; "" = none
	addressAt    hcl.Range // where the plan gives its address, if it does
	address6At   hcl.Range // where it gives that of IPv6
	maxPods      int
	labels       map[string]string
	taints       []kube.Taint
	components   map[string]component
	build        string // "" = not known before the machine is asked; of a sandbox its connection has it
	vars         cty.Value
	waive        []string
	settings     recipe.Settings
	settingAt    map[string]hcl.Range // where the setting stands that a step comes from
}

var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// sameTaint is the index of the taint that stands for the same thing, -1 when
// there is none: a Node has one taint for a key and an effect.
func sameTaint(list []kube.Taint, t kube.Taint) int {
	return slices.IndexFunc(list, func(o kube.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
}

var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	dnsName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	stepNameRE = regexp.MustCompile(`^[a-z0-9_]+$`)
)

// longestNodeName is what the value of a label can have, as the kubelet makes one of the
// name (kubernetes pkg/kubelet/kubelet_node_status.go, initialNode). The API would take 253.
const longestNodeName = 63

// badLabel says why key=value is no Kubernetes label, "" when it is one
// (apimachinery pkg/util/validation: IsQualifiedName, IsValidLabelValue).
func badLabel(key, value string) string {
	prefix, name, slash := strings.Cut(key, "/")
	if !slash {
		prefix, name = "", key
	} else if len(prefix) > 253 || !dnsName.MatchString(prefix) {
		return "the part before the slash must be a DNS name in lower case"
	}
	if !labelName.MatchString(name) {
		return "a name has 1 to 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
	}
	if value != "" && !labelName.MatchString(value) {
		return "a value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
	}
	return ""
}

// nodeBlocks makes the machines of all node blocks.
func (c *compiler) nodeBlocks() {
	for _, b := range c.plan.blocks["node"] {
		c.nodeBlock(b)
	}
	first := map[string]*machine{}
	for _, m := range c.machines {
		key := strings.ToLower(m.Name)
		if key == "" {
			continue // why it has no name was reported
		}
		if before := first[key]; before != nil {
			if before.at == m.at {
				c.Fail(m.at, "duplicate name", "This block makes two nodes with the name %q. Names of Nodes are unique in a cluster; let the argument \"name\" depend on each.key or count.index, or leave it out.", m.Name)
			} else {
				c.Fail(m.at, "duplicate name", "There is another node %q at %s. Names of Nodes are unique in a cluster, and case does not count.", before.Name, c.Files.Place(before.at))
			}
			m.bad = true
			continue
		}
		first[key] = m
	}
	c.sameMachine()
}

// sameMachine reports nodes that are reached in the same way, or have one address: a
// machine is one node.
func (c *compiler) sameMachine() {
	reached, addresses := map[string]*machine{}, map[netip.Addr]givenAddress{}
	for _, m := range c.machines {
		if m.bad {
			continue
		}
		key := m.Connection.Type
		switch m.Connection.Type {
		case "ssh":
			s := m.Connection.SSH
			key += fmt.Sprintf(" %q %d %q", strings.ToLower(s.Host), cmp.Or(s.Port, 22), s.Jump)
		case "sandbox":
			key += " " + m.Connection.Sandbox.Path
		}
		if before := reached[key]; before != nil {
			c.FailOn(m.Name, m.reached, "two nodes on one machine", "Node %q is reached in the same way as node %q at %s, so both would be set up on one machine, each undoing the other. Remove one of them, or give each a connection of its own%s.", m.Name, before.Name, c.Files.Place(before.reached), byEach(before, m))
			m.bad = true
			continue
		}
		reached[key] = m
		if c.cluster == nil {
			continue // in a cluster a Node is found by its address
		}
		for _, a := range m.given() {
			if before, there := addresses[a.ip]; there {
				c.FailOn(m.Name, a.at, "two nodes with one address", "Node %q has the address %s, and so has node %q at %s: what the cluster sends to the one would reach the other. Give each its own%s.", m.Name, a.ip, before.of.Name, c.Files.Place(before.at), byEach(before.of, m))
				m.bad = true
				break
			}
			addresses[a.ip] = a
		}
	}
}

// byEach says how the nodes of one block come to differ.
func byEach(a, b *machine) string {
	if a.at != b.at {
		return ""
	}
	return ": it is one block that makes both, so let it depend on each.key, each.value or count.index"
}

// nodeBlock makes one machine, or with for_each or count several.
func (c *compiler) nodeBlock(b *hcl.Block) {
	attrs, _ := b.Body.JustAttributes() // wrong ones are reported when the block is decoded
	each, count := attrs["for_each"], attrs["count"]
	switch {
	case each != nil && count != nil:
		c.Fail(count.NameRange, "arguments exclude each other", "A node block has for_each or count, not both.")
	case each != nil:
		for _, e := range c.ForEach(each, c.Ctx) {
			ctx := c.Ctx.NewChild()
			ctx.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(e.Key), "value": e.Value})}
			c.machine(b, ctx, e.Key)
		}
	case count != nil:
		v, _, o := c.Evaluate(count.Expr, c.Ctx, "count", cty.Number, eval.Allow{})
		if o == eval.IsNull {
			c.Fail(count.Expr.Range(), "missing value", "The argument \"count\" is null here. It takes a whole number from 0 to 10000.")
		}
		if o != eval.IsValue {
			return
		}
		n, exact := v.AsBigFloat().Int64()
		if exact != 0 || n < 0 || n > 10000 {
			c.Fail(count.Expr.Range(), "number out of range", "The argument \"count\" takes a whole number from 0 to 10000.")
			return
		}
		for i := range n {
			ctx := c.Ctx.NewChild()
			ctx.Variables = map[string]cty.Value{"count": cty.ObjectVal(map[string]cty.Value{"index": cty.NumberIntVal(i)})}
			c.machine(b, ctx, b.Labels[0]+"-"+strconv.FormatInt(i, 10))
		}
	default:
		c.machine(b, c.Ctx, b.Labels[0])
	}
}

// machine reads a node block for one machine.
func (c *compiler) machine(b *hcl.Block, ctx *hcl.EvalContext, name string) {
	s := c.Section(rootBlock("node"), b, ctx)
	m := &machine{label: b.Labels[0], at: b.DefRange, bad: !s.OK}
	m.Name = s.StrOr("name", name)
	m.Address, m.Source = "node."+m.Name, c.Files.Place(b.DefRange)
	own := c.machineArgs(s, ctx)
	base := c.profileOf(s)
	all := own.over(base)
	m.OS, m.Arch, m.DataDir, m.maxPods = all.os, cmp.Or(all.arch, "amd64"), all.dataDir, all.maxPods
	m.build, m.waive, m.OnFailure = all.build, all.waive, all.onFailure
	m.labels, m.taints, m.components = all.labels, all.taints, all.components
	c.withoutCluster(s)
	c.withoutProxy(s)
	c.manyPods(s, own.maxPods, base.maxPods, m.Name)
	m.vars = c.vars(s, ctx)
	if m.Name != "" && (len(m.Name) > longestNodeName || !dnsName.MatchString(m.Name)) {
		at := s.At("name")
		why := "Names of Nodes have lower-case letters, digits, '-' and '.', and begin and end with a letter or digit (RFC 1123)."
		if low := strings.ToLower(m.Name); low != m.Name && dnsName.MatchString(low) {
			why += " Use " + strconv.Quote(low) + ": the kubelet writes names in lower case."
		}
		if len(m.Name) > longestNodeName {
			why += fmt.Sprintf(" This one has %d characters, and the kubelet gives its Node a label with it (kubernetes.io/hostname), which has %d at most.", len(m.Name), longestNodeName)
		}
		c.Fail(at, "invalid node name", "%q cannot be the name of a Node. %s", m.Name, why)
		s.OK = false
	}
	if m.OS == "" && !s.Has("os") && !s.Misspelt("os") && !s.Misspelt("profile") && (!s.Has("profile") || base.known) {
		c.FailOn(m.Name, b.DefRange, "missing argument", "Node %q has no operating system. Give os = \"windows\" or os = \"linux\" here or in its profile.", m.Name)
		s.OK = false
	}
	if !slices.Contains(systems, m.OS) {
		m.OS = "" // which was reported
	}
	if !slices.Contains(architectures, m.Arch) {
		s.OK = false
	}
	c.managementIP(s, m)
	c.managementIP6(s, m)
	if m.DataDir != "" && m.OS != "" {
		if why := badPath(m.OS, m.DataDir); why != "" {
			s.Fail("data_dir", "invalid path", "%q cannot be a folder on %s: %s.", m.DataDir, m.OS, why)
		}
	}
	c.connection(s, b, ctx, m)
	c.windowsBuild(s, m)
	c.serverReturn(m)
	c.cloudAddresses(m)
	c.machineSettings(m, all.settings)
	c.otherSystem(m)
	m.bad = m.bad || !s.OK || m.OS == ""
	c.machines = append(c.machines, m)
}

// withoutCluster reports what only the node of a cluster can have.
func (c *compiler) withoutCluster(s *eval.Section) {
	if len(c.plan.blocks["cluster"]) > 0 {
		return
	}
	const why = "The argument %q is for the nodes of a cluster, and the plan has no cluster block, so it has no effect. Remove it, or add a cluster block."
	for _, name := range []string{"labels", "max_pods", "waive"} {
		if s.Has(name) {
			s.OK = false
			s.Scope.Fail(s.Attrs[name].NameRange, "argument without effect", why, name)
		}
	}
	for _, k := range components {
		for _, b := range s.Blocks.OfType(k.block) {
			s.OK = false
			c.Fail(b.DefRange, "block without effect", "A %s block is for the nodes of a cluster, and the plan has no cluster block. Remove it, or add a cluster block.", k.block)
		}
	}
	for _, b := range s.Blocks.OfType("taint") {
		s.OK = false
		c.Fail(b.DefRange, "block without effect", "A taint is for the nodes of a cluster, and the plan has no cluster block. Remove it, or add a cluster block.")
	}
}

// vars are the values that steps read as self.vars.NAME. They may be sensitive.
func (c *compiler) vars(s *eval.Section, ctx *hcl.EvalContext) cty.Value {
	a := s.Attrs["vars"]
	if a == nil {
		return cty.EmptyObjectVal
	}
	v, o := c.EvaluateMarked(a.Expr, ctx, "vars", cty.DynamicPseudoType, eval.Allow{Sensitive: true})
	switch {
	case o == eval.IsNull:
		return cty.EmptyObjectVal
	case o == eval.IsWrong:
		s.OK = false
		return cty.DynamicVal
	case !v.Type().IsMapType() && !v.Type().IsObjectType():
		s.Fail("vars", "wrong type", "The argument \"vars\" wants a map or an object: values of this machine that steps read as self.vars.NAME.")
		return cty.DynamicVal
	}
	return v
}

func (c *compiler) managementIP(s *eval.Section, m *machine) {
	m.managementIP = s.Str("management_ip")
	if m.managementIP == "" {
		return
	}
	m.ManagementIP = m.managementIP
	ip, err := netip.ParseAddr(m.managementIP)
	switch {
	case err != nil || !ip.Is4():
		s.Fail("management_ip", "invalid address", "%q is no IPv4 address.", m.managementIP)
	case c.cluster != nil && c.cluster.pods.IsValid() && c.cluster.pods.Contains(ip):
		s.Fail("management_ip", "overlapping networks", "The machine's address %s lies in the pods' network %s, so pods would take its packets for their own. Choose another pod_cidr.", ip, c.cluster.pods)
	case c.cluster != nil && c.cluster.services.IsValid() && c.cluster.services.Contains(ip):
		s.Fail("management_ip", "overlapping networks", "The machine's address %s lies in the services' network %s. Choose another service_cidr.", ip, c.cluster.services)
	default:
		c.machineAddress(s, "management_ip", m.managementIP)
		m.addressAt = s.At("management_ip")
	}
}

// connection reads how a machine is reached.
func (c *compiler) connection(s *eval.Section, b *hcl.Block, ctx *hcl.EvalContext, m *machine) {
	blocks := s.Blocks.OfType("connection")
	if len(blocks) == 0 {
		s.OK = false
		if eval.Lost(b.Body, s.Spec, "connection") {
			return
		}
		c.FailOn(m.Name, b.DefRange, "missing block", "Node %q has no connection. Add: connection \"ssh\" { host = \"...\" }.", m.Name)
		return
	}
	cb := blocks[0]
	spec := c.Kind(rootBlock("node").Child("connection"), cb)
	if spec == nil {
		s.OK = false
		return
	}
	cs := c.Section(spec, cb, ctx)
	m.Connection = Connection{Type: cb.Labels[0], Source: c.Files.Place(cb.DefRange)}
	m.reached = cb.DefRange
	switch m.Connection.Type {
	case "ssh":
		ssh := &SSH{Host: cs.Str("host"), Port: int(cs.Int("port", 1, 65535, 0)), User: cs.Str("user"), HostKey: cs.Str("host_key"),
			AcceptNew: cs.Bool("accept_new"), PasswordEnv: cs.Str("password_env"), PassphraseEnv: cs.Str("passphrase_env"), Jump: cs.Strs("jump"),
			Timeout: cs.Duration("timeout", time.Second, 10*time.Minute, 0)}
		for _, f := range cs.Strs("identity") {
			ssh.Identity = append(ssh.Identity, c.Files.Home(f))
		}
		for _, f := range cs.Strs("known_hosts") {
			ssh.KnownHosts = append(ssh.KnownHosts, c.Files.Home(f))
		}
		withoutEffectSSH(cs)
		if ssh.HostKey != "" && !validHostKey(ssh.HostKey) {
			cs.Fail("host_key", "invalid host key", "%q is no host key. Write it as ssh-keyscan shows it, \"ssh-ed25519 AAAA...\", or its fingerprint, \"SHA256:...\".", ssh.HostKey)
		}
		for i, j := range ssh.Jump {
			if !jumpHost.MatchString(j) {
				c.Fail(cs.AtIndex("jump", i), "invalid jump host", "%q is no machine to go through. Write HOST, USER@HOST or USER@HOST:PORT.", j)
				cs.OK = false
			}
		}
		c.machineAddress(cs, "host", ssh.Host)
		m.Connection.SSH = ssh
	case "sandbox":
		box := &Sandbox{Build: cs.Str("build"), IP: cs.Str("ip"), IP6: cs.Str("ip6"), Capacity: cs.Int("capacity", 1, 1<<50, 0)}
		if p := cs.Str("path"); p != "" {
			box.Path = c.Files.Home(p)
		}
		if box.Build != "" && !compat.ValidBuild(box.Build) {
			cs.Fail("build", "invalid build", "%q is no Windows build. Write it as 10.0.20348.", box.Build)
		}
		if box.IP != "" {
			if ip, err := netip.ParseAddr(box.IP); err != nil || !ip.Is4() {
				cs.Fail("ip", "invalid address", "%q is no IPv4 address.", box.IP)
			} else if m.managementIP == "" {
				m.addressAt = cs.At("ip")
			}
			c.machineAddress(cs, "ip", box.IP)
		}
		if box.IP6 != "" {
			box.IP6 = c.address6(cs, "ip6", box.IP6)
		}
		if c.cluster != nil {
			box.ClusterDir = c.cluster.Sandbox
		}
		m.Connection.Sandbox = box
	}
	s.OK = s.OK && cs.OK
}

var (
	jumpHost    = regexp.MustCompile(`^([^@\s:]+@)?([^@\s:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	fingerprint = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}=?$`)
)

// validHostKey tells whether a host key has one of its two forms.
func validHostKey(s string) bool {
	if fingerprint.MatchString(s) {
		return true
	}
	fields := strings.Fields(s)
	if len(fields) < 2 {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(fields[1])
	// RFC 4253, 6.6: the key begins with its own type as a string with its length before.
	return err == nil && len(raw) > 4+len(fields[0]) && string(raw[4:4+len(fields[0])]) == fields[0]
}
