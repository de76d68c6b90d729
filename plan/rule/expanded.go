package rule

import (
	"encoding/json"
	"fmt"
	"strings"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// Expanded is a machine with its steps.
type Expanded struct {
	*block.Machine
	Given   []steps.Spec           // by step blocks
	Origins map[string]*block.Step // of Given, by id
	Made    Made                   // by the other steps
	Ports   []recipe.Port          // of the recipe's programs
	Objects *Objects               // of the whole plan
}

// Made are the things that steps of a machine make, by a key of the thing: the step.
type Made map[string]string

// Add notes what a step of a recipe or a setting makes. A recipe does not contradict
// itself; settings may contradict it and each other, which is reported.
func (d Made) Add(p *block.Plan, m *block.Machine, spec steps.Spec) {
	made := kinds.Makes(spec, m.OS)
	key := made.Same(m.OS)
	if key == "" {
		return
	}
	before, again := d[key]
	at, set := m.SettingAt[spec.ID]
	if again && !set {
		at, set = m.SettingAt[before]
	}
	if again && set {
		p.FailOn(m.Name, at, "two steps for one thing",
			"The steps %q and %q both make %s on node %q, so each would undo the other. Remove one of them.", before, spec.ID,
			made.Words, m.Name)
		return
	}
	d[key] = spec.ID
}

// onceMade reports steps of step blocks that make what another step makes.
func onceMade(p *block.Plan, x *Expanded) {
	own := Made{}
	for _, s := range x.Given {
		o := x.Origins[s.ID]
		key := o.Makes.Same(x.OS)
		if key == "" {
			continue
		}
		before, again := own[key]
		if !again {
			before, again = x.Made[key]
		}
		if again {
			p.FailOn(x.Name, o.Block.DefRange, "two steps for one thing",
				"The steps %q and %q both make %s on node %q, so each would undo the other. Remove one of them.", before, s.ID,
				o.Makes.Words, x.Name)
			continue
		}
		own[key] = s.ID
	}
}

// reservedOnce reports steps that reserve ports which another step, or the host block, reserves: Windows refuses a
// range that overlaps with one that is there.
func reservedOnce(p *block.Plan, x *Expanded) {
	type reserved struct {
		host.PortRange
		by string
	}
	var before []reserved
	for _, one := range x.RecipeSettings.Steps {
		if r, ok := one.Args.(*kinds.ReservedPorts); ok {
			before = append(before, reserved{host.PortRange(*r), "the host block of the node"})
		}
	}
	for _, s := range x.Given {
		step, ok := kinds.As[kinds.ReservedPorts](s)
		if !ok {
			continue
		}
		r := host.PortRange(*step)
		for _, o := range before {
			if o.Protocol == r.Protocol && o.First <= r.Last && r.First <= o.Last {
				p.FailOn(x.Name, x.Origins[s.ID].Block.DefRange, "ports reserved twice", "The step %q reserves %s on node %q, "+
					"and %s reserves %s: a port can be reserved only once. Leave the ports out of one of them.", s.ID, r, x.Name,
					o.by, o.PortRange)
				break
			}
		}
		before = append(before, reserved{r, fmt.Sprintf("the step %q", s.ID)})
	}
}

// Objects are the objects of the cluster that steps of a plan write.
type Objects struct {
	read map[string][]kube.Manifest // by their text
	by   map[string]written         // by objectKey
}

// NewObjects returns Objects without any.
func NewObjects() *Objects {
	return &Objects{read: map[string][]kube.Manifest{}, by: map[string]written{}}
}

// written is an object that a step writes.
type written struct{ text, step, node string }

// Add notes the objects that the manifests block writes.
func (c *Objects) Add(m *kinds.Manifest, step string) { c.note(m, written{step: step}, nil) }

// onceWritten reports an object of the cluster that two steps write, on whatever nodes,
// with other fields: both write as nodejoin, so the fields that only one of them has would
// come and go with each apply.
func onceWritten(p *block.Plan, x *Expanded) {
	for _, s := range x.Given {
		m, ok := kinds.As[kinds.Manifest](s)
		if !ok || steps.HasRef(m.Content) {
			continue // it is complete only later
		}
		x.Objects.note(m, written{step: s.ID, node: x.Name}, func(o kube.Manifest, before written) {
			other := before.step + " of node " + before.node
			if before.node == "" {
				other = "the manifests block"
			}
			p.FailOn(x.Name, x.Origins[s.ID].Block.DefRange, "two manifests for one object",
				"The step %q of node %q writes %s with other fields than %s, so each would undo the other. Write the object "+
					"once, with all its fields.", s.ID, x.Name, o, other)
		})
	}
}

// note notes the objects of a manifest. It calls twice for each that was noted before with
// other fields; twice may be nil if there is none.
func (c *Objects) note(m *kinds.Manifest, of written, twice func(o kube.Manifest, before written)) {
	list, ok := c.read[m.Content]
	if !ok {
		list, _ = m.Objects() // what is wrong with it was reported
		c.read[m.Content] = list
	}
	for _, o := range list {
		text, err := json.Marshal(o.Object)
		if err != nil {
			continue
		}
		now := of
		now.text = string(text)
		before, again := c.by[objectKey(o)]
		if !again {
			c.by[objectKey(o)] = now
		} else if before.text != now.text {
			twice(o, before)
		}
	}
}

// objectKey is equal for manifests of one object.
func objectKey(o kube.Manifest) string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		group = ""
	}
	namespace := o.Namespace
	if namespace == "" {
		namespace = "default"
	}
	return strings.Join([]string{group, o.Kind, namespace, o.Name}, " ")
}
