package eval

import (
	"crypto/sha1" //nolint:gosec // a function of the language, not a protection
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"nodejoin/plan/source"
)

// Functions is the whole function table of the language.
func (sc *Scope) Functions() map[string]function.Function {
	table := map[string]function.Function{
		// numbers
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "max": stdlib.MaxFunc,
		"min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "signum": stdlib.SignumFunc,
		"log": stdlib.LogFunc, "int": stdlib.IntFunc,
		// strings
		"chomp": stdlib.ChompFunc, "format": stdlib.FormatFunc, "formatlist": stdlib.FormatListFunc,
		"indent": stdlib.IndentFunc,
		"join":   stdlib.JoinFunc, "lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
		"regexreplace": stdlib.RegexReplaceFunc, "replace": stdlib.ReplaceFunc, "split": stdlib.SplitFunc,
		"strlen": stdlib.StrlenFunc,
		"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimsuffix": stdlib.TrimSuffixFunc, "trimspace": stdlib.TrimSpaceFunc,
		"upper":      stdlib.UpperFunc,
		"startswith": textTest(strings.HasPrefix, "prefix"), "endswith": textTest(strings.HasSuffix, "suffix"),
		// collections
		"chunklist": stdlib.ChunklistFunc, "coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc,
		"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"distinct": stdlib.DistinctFunc,
		"element":  stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "index": stdlib.IndexFunc, "keys": stdlib.KeysFunc,
		"length": length, "lookup": stdlib.LookupFunc, "merge": stdlib.MergeFunc, "range": stdlib.RangeFunc,
		"reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
		"setproduct":  stdlib.SetProductFunc,
		"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc,
		"sort":   stdlib.SortFunc,
		"values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc, "hasindex": stdlib.HasIndexFunc,
		"sethaselement": stdlib.SetHasElementFunc, "setsymmetricdifference": stdlib.SetSymmetricDifferenceFunc,
		// times
		"formatdate": stdlib.FormatDateFunc, "timeadd": stdlib.TimeAddFunc,
		// conversion
		"tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number),
		"tostring": stdlib.MakeToFunc(cty.String),
		"tolist":   stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":    stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"toset":    stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		// encodings
		"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": jsonDecode, "jsonencode": stdlib.JSONEncodeFunc,
		"yamldecode": yamlDecode, "yamlencode": yamlEncode, "base64encode": base64Encode, "base64decode": base64Decode,
		"sha1":   digest(func(b []byte) []byte { s := sha1.Sum(b); return s[:] }), //nolint:gosec // as above
		"sha256": digest(func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }),
		"sha512": digest(func(b []byte) []byte { s := sha512.Sum512(b); return s[:] }),
		// networks
		"cidrhost": cidrHost, "cidrnetmask": cidrNetmask, "cidrsubnet": cidrSubnet, "cidrcontains": cidrContains,
		// versions
		"semver_satisfies": semverSatisfies, "semver_compare": semverCompare,
		// the controller
		"env": sc.envFunc(), "file": sc.fileFunc(), "fileexists": sc.fileExists(),
		"fileset": sc.fileSet(), "pathexpand": sc.pathExpand(),
		// conditions
		"alltrue": allTrue, "anytrue": anyTrue, "one": one,
	}
	for name, f := range table {
		table[name] = guard(name, f)
	}
	table["templatefile"], table["templatestring"] = sc.templateFile(table), sc.templateString(table)
	table["sensitive"] = marking(func(v cty.Value) cty.Value { return v.Mark(sensitive) })
	table["nonsensitive"] = marking(withoutSensitive)
	// They take unevaluated expressions, which the guard must not touch.
	table["try"], table["can"] = tryfunc.TryFunc, tryfunc.CanFunc
	return table
}

// passing functions combine their arguments without looking into strings, so references survive
// them.
var passing = map[string]bool{
	"join": true, "concat": true, "merge": true, "flatten": true, "values": true, "zipmap": true,
	"lookup": true, "element": true, "tolist": true, "tomap": true, "tostring": true,
}

// guard refuses values that are known only later, and hides the function's errors about
// sensitive arguments.
func guard(name string, f function.Function) function.Function {
	open := func(p function.Parameter) function.Parameter {
		p.AllowMarked, p.AllowNull, p.AllowUnknown, p.AllowDynamicType = true, true, true, true
		return p
	}
	spec := &function.Spec{Description: f.Description()}
	for _, p := range f.Params() {
		spec.Params = append(spec.Params, open(p))
	}
	if v := f.VarParam(); v != nil {
		p := open(*v)
		spec.VarParam = &p
	}
	call := func(args []cty.Value, do func([]cty.Value) error) error {
		secret := false
		for i, a := range args {
			_, s, _ := marksOf(a)
			secret = secret || s
			if !passing[name] && holdsRef(a) {
				return function.NewArgErrorf(i, "the value is known only when the node is joined, so %s cannot work on it now; "+
					"put it into a template, \"${self.management_ip}\"", name)
			}
		}
		if err := tooLarge(name, args); err != nil {
			return err
		}
		err := do(args)
		if err != nil && secret {
			return errors.New("it failed; an argument is sensitive, so the reason is not shown")
		}
		return err
	}
	spec.Type = func(args []cty.Value) (t cty.Type, err error) {
		err = call(args, func(args []cty.Value) (err error) { t, err = f.ReturnTypeForValues(args); return err })
		return t, err
	}
	spec.Impl = func(args []cty.Value, _ cty.Type) (v cty.Value, err error) {
		err = call(args, func(args []cty.Value) (err error) {
			if v, err = f.Call(args); err == nil {
				err = within(v)
			}
			return err
		})
		return v, err
	}
	return function.New(spec)
}

// envFunc is env(NAME), a variable of the controller's environment. What stands there is often a password, and who
// wrote the plan may not be who runs it: the value is sensitive until nonsensitive says otherwise. One that is not set
// is an error, so that a plan does not silently compile to something else.
func (sc *Scope) envFunc() function.Function {
	f := stringFunc(func(a []string) (string, error) {
		v, ok, err := sc.Getenv(a[0])
		if err == nil && !ok {
			err = fmt.Errorf("the environment variable %s is not set; set it, or use a variable with a default", a[0])
		}
		return v, err
	}, "name")
	return function.New(&function.Spec{Params: f.Params(), Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := f.Call(args)
			return v.Mark(sensitive), err
		}})
}

// Getenv looks up the controller's environment. It fails where the plan must not read it.
func (sc *Scope) Getenv(name string) (value string, set bool, err error) {
	if sc.Files != nil && sc.Files.Confined {
		return "", false, errors.New("with --untrusted a plan cannot read the environment")
	}
	if sc.env != nil {
		value, set = sc.env(name)
	}
	return value, set, nil
}

// marking is a function of one value of any type that changes its marks alone.
func marking(change func(cty.Value) cty.Value) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowMarked: true, AllowNull: true,
			AllowUnknown: true, AllowDynamicType: true}},
		Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return change(args[0]), nil },
	})
}

// withoutSensitive is v without the mark, also deep in it. Other marks stay.
func withoutSensitive(v cty.Value) cty.Value {
	plain, paths := v.UnmarkDeepWithPaths()
	for _, p := range paths {
		delete(p.Marks, sensitive)
	}
	return plain.MarkWithPaths(paths)
}

// NewScope is a scope with the functions of the language and no values. env looks up the
// controller's environment; nil = no variable is set.
func NewScope(files *source.Files, env func(name string) (string, bool)) *Scope {
	sc := &Scope{Diags: NewDiags(), Files: files, env: env, contents: map[*hcl.Block]*content{},
		templates: map[string]hclsyntax.Expression{}, texts: map[string]fileText{}}
	sc.Ctx = &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: sc.Functions()}
	return sc
}
