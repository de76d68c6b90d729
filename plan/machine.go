package plan

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
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
				c.diags.fail(m.at, "duplicate name", "This block makes two nodes with the name %q. Names of Nodes are unique in a cluster; let the argument \"name\" depend on each.key or count.index, or leave it out.", m.Name)
			} else {
				c.diags.fail(m.at, "duplicate name", "There is another node %q at %s. Names of Nodes are unique in a cluster, and case does not count.", before.Name, c.plan.place(before.at))
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
			c.diags.failOn(m.Name, m.reached, "two nodes on one machine", "Node %q is reached in the same way as node %q at %s, so both would be set up on one machine, each undoing the other. Remove one of them, or give each a connection of its own%s.", m.Name, before.Name, c.plan.place(before.reached), byEach(before, m))
			m.bad = true
			continue
		}
		reached[key] = m
		if c.cluster == nil {
			continue // in a cluster a Node is found by its address
		}
		for _, a := range m.given() {
			if before, there := addresses[a.ip]; there {
				c.diags.failOn(m.Name, a.at, "two nodes with one address", "Node %q has the address %s, and so has node %q at %s: what the cluster sends to the one would reach the other. Give each its own%s.", m.Name, a.ip, before.of.Name, c.plan.place(before.at), byEach(before.of, m))
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
		c.diags.fail(count.NameRange, "arguments exclude each other", "A node block has for_each or count, not both.")
	case each != nil:
		for _, e := range c.forEach(each, c.ctx) {
			ctx := c.ctx.NewChild()
			ctx.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(e.key), "value": e.value})}
			c.machine(b, ctx, e.key)
		}
	case count != nil:
		v, _, o := c.evaluate(count.Expr, c.ctx, "count", cty.Number, allow{})
		if o == isNull {
			c.diags.fail(count.Expr.Range(), "missing value", "The argument \"count\" is null here. It takes a whole number from 0 to 10000.")
		}
		if o != isValue {
			return
		}
		n, exact := v.AsBigFloat().Int64()
		if exact != 0 || n < 0 || n > 10000 {
			c.diags.fail(count.Expr.Range(), "number out of range", "The argument \"count\" takes a whole number from 0 to 10000.")
			return
		}
		for i := range n {
			ctx := c.ctx.NewChild()
			ctx.Variables = map[string]cty.Value{"count": cty.ObjectVal(map[string]cty.Value{"index": cty.NumberIntVal(i)})}
			c.machine(b, ctx, b.Labels[0]+"-"+strconv.FormatInt(i, 10))
		}
	default:
		c.machine(b, c.ctx, b.Labels[0])
	}
}

// element is one of for_each.
type element struct {
	key   string
	value cty.Value
}

// forEach gives the elements of a map, an object or a set of strings, by key.
func (c *compiler) forEach(a *hcl.Attribute, ctx *hcl.EvalContext) []element {
	v, o := c.evaluateMarked(a.Expr, ctx, "for_each", cty.DynamicPseudoType, allow{sensitive: true, later: true})
	if o == isNull {
		c.diags.fail(a.Expr.Range(), "missing value", "The argument \"for_each\" is null here. For nothing at all let it be an empty map, {}.")
	}
	if o != isValue {
		return nil
	}
	v, marks := v.Unmark()
	if _, secret := marks[sensitive]; secret {
		c.diags.fail(a.Expr.Range(), "sensitive value", "The keys of \"for_each\" name what it makes and are shown in plans and logs, so they cannot come from a sensitive value. Values of a map can.")
		return nil
	}
	if _, isLater := marks[later]; isLater {
		c.diags.fail(a.Expr.Range(), "value known too late", "The keys of \"for_each\" name what it makes, so they must be known while the plan is compiled. Values of a map may be known later.")
		return nil
	}
	t := v.Type()
	if !t.IsMapType() && !t.IsObjectType() && (!t.IsSetType() || t.ElementType() != cty.String) {
		c.diags.fail(a.Expr.Range(), "wrong type", "The argument \"for_each\" wants a map or a set of strings, and this is %s. A list becomes a set with toset(...).", friendly(t))
		return nil
	}
	var out []element
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if t.IsSetType() {
			k = e
		}
		if k.IsNull() {
			c.diags.fail(a.Expr.Range(), "missing value", "The argument \"for_each\" holds a null element; each must be a string, as it names one of the results. Leave null ones out: [for x in LIST : x if x != null].")
			return nil
		}
		out = append(out, element{k.AsString(), e})
	}
	return out
}

// machine reads a node block for one machine.
func (c *compiler) machine(b *hcl.Block, ctx *hcl.EvalContext, name string) {
	s := c.section(rootBlock("node"), b, ctx)
	m := &machine{label: b.Labels[0], at: b.DefRange, bad: !s.ok}
	m.Name = s.or("name", name)
	m.Address, m.Source = "node."+m.Name, c.plan.place(b.DefRange)
	own := c.machineArgs(s, ctx)
	base := c.profileOf(s)
	all := own.over(base)
	m.OS, m.Arch, m.DataDir, m.maxPods = all.os, first(all.arch, "amd64"), all.dataDir, all.maxPods
	m.build, m.waive, m.OnFailure = all.build, all.waive, all.onFailure
	m.labels, m.taints, m.components = all.labels, all.taints, all.components
	c.withoutCluster(s)
	c.withoutProxy(s)
	c.manyPods(s, own.maxPods, base.maxPods, m.Name)
	m.vars = c.vars(s, ctx)
	if m.Name != "" && (len(m.Name) > longestNodeName || !dnsName.MatchString(m.Name)) {
		at := s.at("name")
		why := "Names of Nodes have lower-case letters, digits, '-' and '.', and begin and end with a letter or digit (RFC 1123)."
		if low := strings.ToLower(m.Name); low != m.Name && dnsName.MatchString(low) {
			why += " Use " + quote(low) + ": the kubelet writes names in lower case."
		}
		if len(m.Name) > longestNodeName {
			why += fmt.Sprintf(" This one has %d characters, and the kubelet gives its Node a label with it (kubernetes.io/hostname), which has %d at most.", len(m.Name), longestNodeName)
		}
		c.diags.fail(at, "invalid node name", "%q cannot be the name of a Node. %s", m.Name, why)
		s.ok = false
	}
	if m.OS == "" && !s.has("os") && !s.misspelt("os") && !s.misspelt("profile") && (!s.has("profile") || base.known) {
		c.diags.failOn(m.Name, b.DefRange, "missing argument", "Node %q has no operating system. Give os = \"windows\" or os = \"linux\" here or in its profile.", m.Name)
		s.ok = false
	}
	if !contains(systems, m.OS) {
		m.OS = "" // which was reported
	}
	if !contains(architectures, m.Arch) {
		s.ok = false
	}
	c.managementIP(s, m)
	c.managementIP6(s, m)
	if m.DataDir != "" && m.OS != "" {
		if why := badPath(m.OS, m.DataDir); why != "" {
			s.fail("data_dir", "invalid path", "%q cannot be a folder on %s: %s.", m.DataDir, m.OS, why)
		}
	}
	c.connection(s, b, ctx, m)
	c.windowsBuild(s, m)
	c.serverReturn(m)
	c.cloudAddresses(m)
	c.machineSettings(m, all.settings)
	c.otherSystem(m)
	m.bad = m.bad || !s.ok || m.OS == ""
	c.machines = append(c.machines, m)
}

// withoutCluster reports what only the node of a cluster can have.
func (c *compiler) withoutCluster(s *section) {
	if len(c.plan.blocks["cluster"]) > 0 {
		return
	}
	const why = "The argument %q is for the nodes of a cluster, and the plan has no cluster block, so it has no effect. Remove it, or add a cluster block."
	for _, name := range []string{"labels", "max_pods", "waive"} {
		if s.has(name) {
			s.ok = false
			s.c.diags.fail(s.attrs[name].NameRange, "argument without effect", why, name)
		}
	}
	for _, k := range components {
		for _, b := range s.blocks.OfType(k.block) {
			s.ok = false
			c.diags.fail(b.DefRange, "block without effect", "A %s block is for the nodes of a cluster, and the plan has no cluster block. Remove it, or add a cluster block.", k.block)
		}
	}
	for _, b := range s.blocks.OfType("taint") {
		s.ok = false
		c.diags.fail(b.DefRange, "block without effect", "A taint is for the nodes of a cluster, and the plan has no cluster block. Remove it, or add a cluster block.")
	}
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// vars are the values that steps read as self.vars.NAME. They may be sensitive.
func (c *compiler) vars(s *section, ctx *hcl.EvalContext) cty.Value {
	a := s.attrs["vars"]
	if a == nil {
		return cty.EmptyObjectVal
	}
	v, o := c.evaluateMarked(a.Expr, ctx, "vars", cty.DynamicPseudoType, allow{sensitive: true})
	switch {
	case o == isNull:
		return cty.EmptyObjectVal
	case o == isWrong:
		s.ok = false
		return cty.DynamicVal
	case !v.Type().IsMapType() && !v.Type().IsObjectType():
		s.fail("vars", "wrong type", "The argument \"vars\" wants a map or an object: values of this machine that steps read as self.vars.NAME.")
		return cty.DynamicVal
	}
	return v
}

func (c *compiler) managementIP(s *section, m *machine) {
	m.managementIP = s.str("management_ip")
	if m.managementIP == "" {
		return
	}
	m.ManagementIP = m.managementIP
	ip, err := netip.ParseAddr(m.managementIP)
	switch {
	case err != nil || !ip.Is4():
		s.fail("management_ip", "invalid address", "%q is no IPv4 address.", m.managementIP)
	case c.cluster != nil && c.cluster.pods.IsValid() && c.cluster.pods.Contains(ip):
		s.fail("management_ip", "overlapping networks", "The machine's address %s lies in the pods' network %s, so pods would take its packets for their own. Choose another pod_cidr.", ip, c.cluster.pods)
	case c.cluster != nil && c.cluster.services.IsValid() && c.cluster.services.Contains(ip):
		s.fail("management_ip", "overlapping networks", "The machine's address %s lies in the services' network %s. Choose another service_cidr.", ip, c.cluster.services)
	default:
		c.machineAddress(s, "management_ip", m.managementIP)
		m.addressAt = s.at("management_ip")
	}
}

// connection reads how a machine is reached.
func (c *compiler) connection(s *section, b *hcl.Block, ctx *hcl.EvalContext, m *machine) {
	blocks := s.blocks.OfType("connection")
	if len(blocks) == 0 {
		s.ok = false
		if lost(b.Body, s.spec, "connection") {
			return
		}
		c.diags.failOn(m.Name, b.DefRange, "missing block", "Node %q has no connection. Add: connection \"ssh\" { host = \"...\" }.", m.Name)
		return
	}
	cb := blocks[0]
	spec := c.kind(rootBlock("node").child("connection"), cb)
	if spec == nil {
		s.ok = false
		return
	}
	cs := c.section(spec, cb, ctx)
	m.Connection = Connection{Type: cb.Labels[0], Source: c.plan.place(cb.DefRange)}
	m.reached = cb.DefRange
	switch m.Connection.Type {
	case "ssh":
		ssh := &SSH{Host: cs.str("host"), Port: int(cs.whole("port", 1, 65535, 0)), User: cs.str("user"), HostKey: cs.str("host_key"),
			AcceptNew: cs.flag("accept_new"), PasswordEnv: cs.str("password_env"), PassphraseEnv: cs.str("passphrase_env"), Jump: cs.strs("jump"),
			Timeout: cs.duration("timeout", time.Second, 10*time.Minute, 0)}
		for _, f := range cs.strs("identity") {
			ssh.Identity = append(ssh.Identity, c.home(f))
		}
		for _, f := range cs.strs("known_hosts") {
			ssh.KnownHosts = append(ssh.KnownHosts, c.home(f))
		}
		withoutEffectSSH(cs)
		if ssh.HostKey != "" && !validHostKey(ssh.HostKey) {
			cs.fail("host_key", "invalid host key", "%q is no host key. Write it as ssh-keyscan shows it, \"ssh-ed25519 AAAA...\", or its fingerprint, \"SHA256:...\".", ssh.HostKey)
		}
		for i, j := range ssh.Jump {
			if !jumpHost.MatchString(j) {
				c.diags.fail(cs.atIndex("jump", i), "invalid jump host", "%q is no machine to go through. Write HOST, USER@HOST or USER@HOST:PORT.", j)
				cs.ok = false
			}
		}
		c.machineAddress(cs, "host", ssh.Host)
		m.Connection.SSH = ssh
	case "sandbox":
		box := &Sandbox{Build: cs.str("build"), IP: cs.str("ip"), IP6: cs.str("ip6"), Capacity: cs.whole("capacity", 1, 1<<50, 0)}
		if p := cs.str("path"); p != "" {
			box.Path = c.home(p)
		}
		if box.Build != "" && !compat.ValidBuild(box.Build) {
			cs.fail("build", "invalid build", "%q is no Windows build. Write it as 10.0.20348.", box.Build)
		}
		if box.IP != "" {
			if ip, err := netip.ParseAddr(box.IP); err != nil || !ip.Is4() {
				cs.fail("ip", "invalid address", "%q is no IPv4 address.", box.IP)
			} else if m.managementIP == "" {
				m.addressAt = cs.at("ip")
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
	s.ok = s.ok && cs.ok
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

// home makes a path absolute; one that begins with "~/" lies in the user's folder.
func (c *compiler) home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	return c.plan.abs(path)
}
