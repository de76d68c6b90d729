package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"nodejoin/steps"
)

// Shape is the recipe of all nodes that differ only in what no two nodes share:
// their names and addresses (Own). In its steps these are references, as they are for
// values that a host gives, and Expand fills them. A plan has few shapes and may
// have thousands of nodes. It is not changed by use.
type Shape struct {
	specs []steps.Spec
	holes []int // steps that refer to the name or the address
}

// The references of a shape. No step has the id "node", so nothing else can be
// meant by them.
var (
	nameRef     = steps.Ref("node.name")
	addressRef  = steps.Ref("node.management_ip")
	address6Ref = steps.Ref("node.management_ip6")
)

// Own is what no two nodes share. The addresses are those of its input, "" where that has none.
type Own struct{ Node, Address, Address6 string }

// ShapeKey is equal for inputs that have one shape.
func ShapeKey(in Input) (string, error) {
	key, err := json.Marshal(in.shape())
	return string(key), err
}

// shape is the input with references in place of what is of one node only.
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

// NewShape gives the shape of an input. The same input gives the same steps. It
// touches nothing.
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
		if strings.Contains(s.specs[i].Title, "\x00") || holdsNodeRef(s.specs[i].Args) {
			s.holes = append(s.holes, i)
		}
	}
	return s, nil
}

// Steps are those of the shape, with the references. They are not to be changed,
// except for Source.
func (s *Shape) Steps() []steps.Spec { return s.specs }

// nodeName are names that stand for themselves in JSON, YAML, TOML and on a
// command line, so that they can be filled in anywhere: those of Node objects
// (kubernetes apimachinery pkg/util/validation, IsDNS1123Subdomain).
var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// Expand gives the steps of one node, in an order in which they can run: every
// step comes after those that it names in After.
// The steps share their After, and most of their Args, with other nodes. There is
// room for as many more behind them as spare says.
func (s *Shape) Expand(own Own, spare int) ([]steps.Spec, error) {
	if !nodeName.MatchString(own.Node) {
		return nil, fmt.Errorf("node name %q: the name of a Node object is in lower case, of letters, digits, '-' and '.'", own.Node)
	}
	for _, address := range []string{own.Address, own.Address6} {
		if _, err := netip.ParseAddr(address); address != "" && err != nil {
			return nil, fmt.Errorf("management address of %s: %w", own.Node, err)
		}
	}
	out := append(make([]steps.Spec, 0, len(s.specs)+spare), s.specs...)
	for _, i := range s.holes {
		out[i].Title = steps.Resolve(out[i].Title, map[string]string{"node.name": own.Node, "node.management_ip": own.Address, "node.management_ip6": own.Address6})
		out[i].Args = fill(out[i].Args, own)
	}
	return out, nil
}

// How references stand in JSON.
var (
	nameHole     = hole(nameRef)
	addressHole  = hole(addressRef)
	address6Hole = hole(address6Ref)
)

func hole(ref string) []byte {
	text := steps.MustArgs(ref)
	return text[1 : len(text)-1]
}

func holdsNodeRef(args []byte) bool {
	return bytes.Contains(args, nameHole) || bytes.Contains(args, addressHole) || bytes.Contains(args, address6Hole)
}

// fill puts the name and addresses of a node where args refer to them. None has
// characters that JSON escapes.
func fill(args json.RawMessage, own Own) json.RawMessage {
	for _, h := range []struct {
		hole  []byte
		value string
	}{{nameHole, own.Node}, {addressHole, own.Address}, {address6Hole, own.Address6}} {
		if bytes.Contains(args, h.hole) { // ReplaceAll would copy all the same
			args = bytes.ReplaceAll(args, h.hole, []byte(h.value))
		}
	}
	return args
}
