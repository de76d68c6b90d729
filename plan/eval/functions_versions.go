package eval

import (
	"github.com/Masterminds/semver/v3"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

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
