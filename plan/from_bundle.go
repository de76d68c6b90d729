package plan

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// bundled are the images that a machine imports: those of the lock that are for it.
func (c *compiler) bundled(m *block.Machine) (out []recipe.BundledImage) {
	if c.opt.Bundle == nil || c.lock == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, e := range c.lock.Images {
		i := Image{Name: e.Name, OS: m.OS, Arch: m.Arch, Build: buildOf(m)}
		src := c.opt.Bundle.Image(e.Name, m.OS, m.Arch)
		if i.LockedAs(e) && !seen[e.Name] && src.File != "" {
			seen[e.Name] = true
			out = append(out, recipe.BundledImage{Name: e.Name, Archive: src})
		}
	}
	return out
}

// contained takes what the steps install from the bundle. Without a network, it reports steps that would read
// something from elsewhere.
func (c *compiler) contained(of *Compiled) {
	if c.opt.Bundle == nil && !c.opt.Offline || c.List.HasErrors() {
		return
	}
	reported := map[string]bool{}
	fail := func(n block.Node, s steps.Spec, what, from, remedy string) {
		if !reported[what] {
			reported[what] = true
			c.Fail(c.nodeAt(n.Name), "not available offline", "Node %q needs %s from %s (%s), and nothing may be read "+
				"over the network. %s", n.Name, what, from, s.Source, remedy)
		}
	}
	for _, n := range of.Nodes {
		for i, s := range n.Steps {
			if src, ok := kinds.Installs(s); ok {
				var err error
				if n.Steps[i], err = c.fromBundle(s, src); err != nil {
					fail(n, s, "the artifact of the step "+s.ID, src.Name(), c.withBundle("mirror { path = \"...\" }"))
				}
			}
			if o, ok := kinds.As[kinds.Image](s); ok && o.File == "" {
				fail(n, s, "the image "+o.Image, "its registry", c.withBundle("no images block"))
			}
		}
	}
}

// withBundle says what to do without a network. other helps a plan that is not from a bundle.
func (c *compiler) withBundle(other string) string {
	if c.opt.Bundle != nil {
		return "The bundle does not have it. Make the bundle again, with 'nodejoin bundle'."
	}
	return fmt.Sprintf("Use a bundle ('nodejoin bundle'), or a plan with %s.", other)
}

// fromBundle is a step with its artifact from the bundle. Without a bundle it is the step, if it reads a file.
func (c *compiler) fromBundle(s steps.Spec, src steps.Source) (steps.Spec, error) {
	if c.opt.Bundle == nil {
		if src.URL != "" {
			return s, fmt.Errorf("%s is an address", src.Name())
		}
		return s, nil
	}
	file := c.opt.Bundle.File(src)
	if file == "" {
		return s, fmt.Errorf("%s is not in the bundle", src.Name())
	}
	args, _, err := kinds.Catalog().Decode(s)
	if err != nil {
		return s, err
	}
	at, err := json.Marshal(map[string]string{"url": "", "file": file})
	if err == nil {
		err = json.Unmarshal(at, args)
	}
	s.Args = steps.MustArgs(args)
	return s, err
}

// nodeAt is the place of a node in the plan.
func (c *compiler) nodeAt(name string) hcl.Range {
	for _, m := range c.Machines {
		if m.Name == name {
			return m.Range
		}
	}
	return hcl.Range{}
}
