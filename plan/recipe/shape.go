package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"nodejoin/steps"
)

// Shape is the recipe of all nodes that differ only in their names and addresses (Own). Its steps hold
// references in their place, as for values that come from a host, and Expand has them filled. A plan has few
// shapes and may have thousands of nodes. A Shape is immutable.
type Shape struct {
	specs []steps.Spec
	holes []int // steps that refer to the name or an address
}

// The references of a shape. No step has the id "node", so they are unambiguous.
const (
	nameValue     = "node.name"
	addressValue  = "node.management_ip"
	address6Value = "node.management_ip6"
)

var nameRef, addressRef, address6Ref = steps.Ref(nameValue), steps.Ref(addressValue), steps.Ref(address6Value)

// Own is what differs between the nodes of a shape. An address is "" if the input has none.
type Own struct{ Node, Address, Address6 string }

// ShapeKey returns a key that is equal for inputs that share a shape.
func ShapeKey(in Input) (string, error) {
	key, err := json.Marshal(in.shape())
	return string(key), err
}

// shape returns the input with references in place of what belongs to one node.
func (in Input) shape() Input {
	in.Node = nameRef
	if in.ManagementIP != "" {
		in.ManagementIP = addressRef
	}
	if in.ManagementIP6 != "" {
		in.ManagementIP6 = address6Ref
	}
	return in
}

// NewShape returns the shape of an input. It is pure: the same input gives the same steps.
func NewShape(in Input) (*Shape, error) {
	in = in.shape()
	if err := Check(in); err != nil {
		return nil, err
	}
	b, err := newBuild(in)
	if err != nil {
		return nil, err
	}
	if in.OS == "linux" {
		b.linux()
	} else {
		b.windows()
	}
	if b.err != nil {
		return nil, b.err
	}
	s := &Shape{specs: b.specs}
	for i := range s.specs {
		if ofNode(s.specs[i]) {
			s.holes = append(s.holes, i)
		}
	}
	return s, nil
}

// Steps returns the steps of the shape, with the references. Callers must not change them, except for Source.
func (s *Shape) Steps() []steps.Spec { return s.specs }

// nodeName matches names that need no quoting in JSON, YAML, TOML and on a command line, so that they can be
// filled in anywhere: those of Node objects (kubernetes apimachinery pkg/util/validation,
// IsDNS1123Subdomain).
var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// Expand appends the steps of one node to a list, in an order in which they can run: each step comes after those that
// its After names. The steps share their After and the texts of their Args with other nodes.
func (s *Shape) Expand(to []steps.Spec, own Own) ([]steps.Spec, error) {
	if !nodeName.MatchString(own.Node) {
		return nil, fmt.Errorf("node name %q: the name of a Node consists of lower-case letters, digits, '-' and '.'",
			own.Node)
	}
	for _, address := range []string{own.Address, own.Address6} {
		if _, err := netip.ParseAddr(address); address != "" && err != nil {
			return nil, fmt.Errorf("management address of %s: %w", own.Node, err)
		}
	}
	first := len(to)
	to = append(to, s.specs...)
	values := map[string]string{nameValue: own.Node}
	if own.Address != "" {
		values[addressValue] = own.Address
	}
	if own.Address6 != "" {
		values[address6Value] = own.Address6
	}
	for _, i := range s.holes {
		spec := &to[first+i]
		spec.Title, spec.Args = steps.Resolve(spec.Title, values), spec.Args.With(values)
	}
	return to, nil
}

// ofNode reports whether the step refers to the name or an address of its node.
func ofNode(s steps.Spec) bool {
	refs := []string{nameRef, addressRef, address6Ref}
	return steps.HasRef(s.Title) || slices.ContainsFunc(refs, func(ref string) bool {
		text := steps.MustArgs(ref).JSON()
		return bytes.Contains(s.Args.JSON(), text[1:len(text)-1])
	})
}
