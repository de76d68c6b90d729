package eval

import (
	"net/netip"

	"github.com/Masterminds/semver/v3"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// textTest is a function from two strings to true or false.
func textTest(do func(text, part string) bool, part string) function.Function {
	return boolFunc(func(a []string) (bool, error) { return do(a[0], a[1]), nil }, "text", part)
}

// boolFunc is a function from strings to true or false.
func boolFunc(do func(args []string) (bool, error), params ...string) function.Function {
	return function.New(&function.Spec{Params: text(params...), Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			in := make([]string, len(args))
			for i, a := range args {
				in[i] = a.AsString()
			}
			ok, err := do(in)
			return cty.BoolVal(ok), err
		}})
}

// semverSatisfies reports whether a version fits a constraint, ">= 1.27, < 1.31". A
// pre-release fits only a constraint that names one (semver 2.0.0, as npm has it).
var semverSatisfies = boolFunc(func(a []string) (bool, error) {
	v, err := semver.NewVersion(a[0])
	if err != nil {
		return false, function.NewArgErrorf(0, "%q is not a version; write for example \"1.36.3\"", a[0])
	}
	want, err := semver.NewConstraint(a[1])
	if err != nil {
		return false, function.NewArgErrorf(1, "%q is not a version constraint; write for example \">= 1.27, < 1.31\"", a[1])
	}
	return want.Check(v), nil
}, "version", "constraint")

// semverCompare is -1, 0 or 1: the first version is lower, equal or higher. Build
// metadata does not count.
var semverCompare = function.New(&function.Spec{Params: text("a", "b"), Type: function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		var v [2]*semver.Version
		for i, a := range args {
			var err error
			if v[i], err = semver.NewVersion(a.AsString()); err != nil {
				return cty.NilVal, function.NewArgErrorf(i, "%q is not a version; write for example \"1.36.3\"", a.AsString())
			}
		}
		return cty.NumberIntVal(int64(v[0].Compare(v[1]))), nil
	}})

// cidrContains reports whether an address or a whole network lies in a network.
var cidrContains = boolFunc(func(a []string) (bool, error) {
	p, err := netip.ParsePrefix(a[0])
	if err != nil {
		return false, function.NewArgErrorf(0, "%q is not a network; write for example \"10.244.0.0/16\"", a[0])
	}
	if ip, err := netip.ParseAddr(a[1]); err == nil {
		return p.Contains(ip), nil
	}
	inner, err := netip.ParsePrefix(a[1])
	if err != nil {
		return false, function.NewArgErrorf(1, "%q is neither an address nor a network", a[1])
	}
	return p.Bits() <= inner.Bits() && p.Contains(inner.Masked().Addr()), nil
}, "network", "address")
