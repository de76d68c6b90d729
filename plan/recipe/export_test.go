package recipe

import "nodejoin/steps"

// Expand returns the steps of one node: its shape's steps, filled in.
func Expand(in Input) ([]steps.Spec, error) {
	s, err := NewShape(in)
	if err != nil {
		return nil, err
	}
	return s.Expand(nil, Own{in.Node, in.ManagementIP, in.ManagementIP6})
}
