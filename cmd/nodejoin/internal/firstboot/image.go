package firstboot

import (
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/generalize"
	"nodejoin/steps/kinds"
)

// image is the part of a plan that an image has of a node.
type image struct{ node string }

// Prepare leaves of a plan the steps of the image.
func (i image) Prepare(_ context.Context, p *plan.Compiled) error {
	p.Nodes = slices.DeleteFunc(p.Nodes, func(n plan.Node) bool { return n.Name != i.node })
	for at, n := range p.Nodes {
		p.Nodes[at].Steps, _ = divide(n)
		p.Nodes[at].Partial = true
	}
	p.Moved = nil
	return nil
}

// Options are those of an engine that asks no cluster and finishes nothing after a boot by itself.
func (i image) Options(_ *plan.Compiled, opt engine.Options) engine.Options {
	opt.Members, opt.Resume = nil, nil
	return opt
}

// left is a step that an image does not have.
type left struct {
	steps.Spec
	why string
}

// Why a step is left to the join, most telling first.
const (
	isSecret  = "secrets and certificates"
	isMachine = "names, addresses and identity"
	isCluster = "the cluster, and conditions of the join"
	isLater   = "what comes after these"
)

// reasons are those of left, in their order.
var reasons = []string{isSecret, isMachine, isCluster, isLater}

// divide divides the steps of a node into those of an image and those that it leaves to the join: what has a secret or
// something of the machine, and what needs that.
func divide(n plan.Node) (mine []steps.Spec, later []left) {
	without, waited := map[string]bool{}, map[string]bool{}
	for _, s := range n.Steps {
		k, why := kinds.Of(s), reason(n, s)
		runs := k.Runs != nil || k.Starts != nil || k.Waits
		for _, id := range append(slices.Clone(s.After), s.OnlyIf) {
			// A file may be there before another one; what runs may not, and nothing is ahead of what it waits for.
			if why == "" && (waited[id] || runs && without[id]) {
				why = isLater
			}
		}
		if why == "" {
			mine = append(mine, s)
			continue
		}
		later = append(later, left{s, why})
		// What only looks at the machine, or counts after a boot anyway, is waited for by nobody.
		without[s.ID] = !k.Finds && !k.AfterBoot
		waited[s.ID] = runs || k.Place == steps.OnCluster || why == isLater
	}
	for i, s := range mine {
		mine[i].After = slices.DeleteFunc(slices.Clone(s.After), func(id string) bool {
			return slices.ContainsFunc(later, func(l left) bool { return l.ID == id })
		})
	}
	return mine, later
}

// ofEvery are the references that have one value on all machines of an image.
var ofEvery = []string{"fact.arch", "fact.data_dir", "fact.cgroup_driver", "fact.systemd_cgroup", "fact.resolv_conf"}

// reason is why a step is not in an image, by itself; "" = it is.
func reason(n plan.Node, s steps.Spec) string {
	k := kinds.Of(s)
	_, authority := kinds.As[kinds.TrustedCA](s)
	switch {
	case k.Place == steps.OnCluster, k.Finds:
		return isCluster
	case len(secrets(s)) > 0, !authority && strings.Contains(string(s.Args.JSON()), "-----BEGIN "):
		return isSecret
	case !k.Image, names(s.Args.JSON(), append(addresses(n), n.Name)):
		return isMachine
	}
	why := ""
	for _, r := range steps.ArgRefs(s.Args) {
		switch step, _, _ := strings.Cut(r, "."); {
		case slices.Contains(ofEvery, r):
		case step == "fact":
			return isMachine
		case step == "cluster":
			why = isCluster
		default:
			why = cmp.Or(why, isLater)
		}
	}
	return why
}

// secrets are those in the arguments of a step.
func secrets(s steps.Spec) (out []string) {
	step, k, err := kinds.Catalog().Decode(s)
	if err == nil && k.Secrets != nil {
		k.Secrets(step, func(secret string) string {
			if text := strings.TrimSpace(secret); text != "" && !steps.HasRef(text) {
				out = append(out, text)
			}
			return secret
		})
	}
	return out
}

// addresses are those that the plan has of a node.
func addresses(n plan.Node) []string {
	out := []string{n.ManagementIP}
	if s := n.Connection.Sandbox; s != nil {
		out = append(out, s.IP, s.IP6)
	}
	if s := n.Connection.SSH; s != nil {
		out = append(out, s.Host)
	}
	if w := n.Connection.WinRM; w != nil {
		out = append(out, w.Host)
	}
	return slices.DeleteFunc(out, func(a string) bool {
		ip, err := netip.ParseAddr(a)
		return a == "" || a == "localhost" || err == nil && ip.IsLoopback()
	})
}

// names reports whether one of the words is in the arguments of a step.
func names(args json.RawMessage, words []string) bool {
	for _, w := range words {
		if ok, _ := regexp.Match(`(^|[^\w-])`+regexp.QuoteMeta(w)+`($|[^\w-])`, args); ok {
			return true
		}
	}
	return false
}

// generalization is how the machine of a node is made fit to be copied, after the steps of the image. It is sent the
// secrets of its own node, and of no other.
func generalization(n plan.Node) generalize.Request {
	req := generalize.Request{Node: n.Name, Addresses: addresses(n)}
	mine, _ := divide(n)
	for _, s := range mine {
		req.Steps = append(req.Steps, s.ID)
		if _, ok := kinds.Installs(s); ok {
			req.Artifacts = append(req.Artifacts, kinds.Makes(s, n.OS).Key.Name)
		}
	}
	for _, s := range n.Steps {
		req.Secrets = append(req.Secrets, secrets(s)...)
	}
	slices.Sort(req.Secrets)
	req.Secrets = slices.Compact(req.Secrets)
	return req
}
