package plan

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/recipe"
)

// joinSpecs are the ways in which a kubelet gets its first credentials.
var joinSpecs = map[string]*blockSpec{
	"bootstrap_token": {name: "join", doc: "a token that is minted when it is needed and revoked after", attrs: []attrSpec{
		{name: "ttl", typ: cty.String, doc: "life of the bootstrap token, default 15m"},
	}},
	"kubeadm": {name: "join", doc: "kubeadm, as a worker (Windows, Kubernetes 1.30 and later)", attrs: []attrSpec{
		{name: "ttl", typ: cty.String, doc: "life of the bootstrap token, default 15m"},
		{name: "ignore_preflight_errors", typ: strings_, doc: "preflight checks whose errors do not end the join, by the names that kubeadm gives them"},
	}},
	"kubeconfig": {name: "join", doc: "a kubeconfig that is put on the nodes for their kubelets", attrs: []attrSpec{
		{name: "path", typ: cty.String, required: true, doc: "kubeconfig on the controller, or a folder that holds one for each node, NAME.conf"},
	}},
}

const defaultTokenTTL = 15 * time.Minute

// joinBlock reads the join block of the cluster; without one it is a bootstrap token.
func (c *compiler) joinBlock(s *section, k *cluster) {
	in := &k.base
	in.Join = recipe.Join{Kind: "bootstrap_token", TTL: defaultTokenTTL}
	for _, b := range s.blocks.OfType("join") {
		spec := c.kind(rootBlock("cluster").child("join"), b)
		if spec == nil {
			continue
		}
		js := c.section(spec, b, c.ctx)
		in.Join = recipe.Join{Kind: b.Labels[0]}
		switch in.Join.Kind {
		case "bootstrap_token":
			in.Join.TTL = js.duration("ttl", time.Minute, 24*time.Hour, defaultTokenTTL)
		case "kubeadm":
			in.Join.TTL = js.duration("ttl", time.Minute, 24*time.Hour, defaultTokenTTL)
			in.Join.IgnorePreflightErrors = c.preflightChecks(js)
		case "kubeconfig":
			k.joinFile = c.givenKubeconfig(js)
		}
	}
}

// preflightCheck is a name that kubeadm may give a check: "Port-10250",
// "FileAvailable-\etc\kubernetes\pki\ca.crt".
var preflightCheck = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.\\-]*$`)

// preflightChecks reads the names of the checks whose errors are ignored.
func (c *compiler) preflightChecks(s *section) []string {
	names := s.strs("ignore_preflight_errors")
	for i, n := range names {
		at := s.atIndex("ignore_preflight_errors", i)
		switch {
		case !preflightCheck.MatchString(n):
			c.diags.fail(at, "invalid preflight check", "%q is no name of a check. Write one name for each element, as kubeadm prints it in brackets: from [ERROR Port-10250] that is \"Port-10250\".", n)
			s.ok = false
		case slices.ContainsFunc(names[:i], func(o string) bool { return strings.EqualFold(o, n) }):
			c.diags.fail(at, "duplicate preflight check", "The check %q is named twice; kubeadm does not tell upper from lower case. Remove one.", n)
			s.ok = false
		case strings.EqualFold(n, "all"):
			c.diags.warn(at, "all preflight errors ignored", "kubeadm then goes on whatever is wrong with a machine, and what it leaves there is harder to read than its checks. Name the checks that do not matter here.")
		}
	}
	return names
}
