package eval

import (
	"crypto/sha1" //nolint:gosec // a function of the language, not a protection
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"sigs.k8s.io/yaml"

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

func text(params ...string) []function.Parameter {
	out := make([]function.Parameter, len(params))
	for i, p := range params {
		out[i] = function.Parameter{Name: p, Type: cty.String}
	}
	return out
}

// stringFunc is a function from strings to a string.
func stringFunc(do func(args []string) (string, error), params ...string) function.Function {
	return function.New(&function.Spec{Params: text(params...), Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			in := make([]string, len(args))
			for i, a := range args {
				in[i] = a.AsString()
			}
			out, err := do(in)
			return cty.StringVal(out), err
		}})
}

func digest(sum func([]byte) []byte) function.Function {
	return stringFunc(func(a []string) (string, error) { return hex.EncodeToString(sum([]byte(a[0]))), nil }, "text")
}

var base64Encode = stringFunc(func(a []string) (string, error) {
	return base64.StdEncoding.EncodeToString([]byte(a[0])), nil
}, "text")

var base64Decode = stringFunc(func(a []string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(a[0])
	if err == nil && !utf8.Valid(b) {
		err = errors.New("the decoded bytes are not UTF-8 text")
	}
	return string(b), err
}, "text")

// envFunc is env(NAME), a variable of the controller's environment. What stands there is often a password, and who
// wrote the plan may not be who runs it: the value is sensitive until nonsensitive says otherwise. One that is not set
// is an error, so that a plan does not silently compile to something else.
func (sc *Scope) envFunc() function.Function {
	f := stringFunc(func(a []string) (string, error) {
		if sc.Files != nil && sc.Files.Confined {
			return "", errors.New("with --untrusted a plan cannot read the environment")
		}
		if sc.env != nil {
			if v, ok := sc.env(a[0]); ok {
				return v, nil
			}
		}
		return "", fmt.Errorf("the environment variable %s is not set; set it, or use a variable with a default", a[0])
	}, "name")
	return function.New(&function.Spec{Params: f.Params(), Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := f.Call(args)
			return v.Mark(sensitive), err
		}})
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

// fileText is the result of reading a file.
type fileText struct {
	text string
	err  error
}

func (sc *Scope) read(name string) (string, error) {
	f, ok := sc.texts[name]
	if !ok {
		f.text, f.err = sc.readAnew(name)
		sc.texts[name] = f
	}
	return f.text, f.err
}

func (sc *Scope) readAnew(name string) (string, error) {
	b, err := sc.Files.Read(sc.Files.Abs(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s does not exist; relative paths begin at the plan's folder", name)
	}
	if err == nil && !utf8.Valid(b) {
		err = fmt.Errorf("%s is not UTF-8 text", name)
	}
	return string(b), err
}

func (sc *Scope) fileFunc() function.Function {
	return stringFunc(func(a []string) (string, error) { return sc.read(a[0]) }, "path")
}

func (sc *Scope) fileExists() function.Function {
	return function.New(&function.Spec{Params: text("path"), Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			fi, err := sc.Files.Stat(sc.Files.Abs(args[0].AsString()))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return cty.False, nil
			case err != nil:
				return cty.False, err
			}
			return cty.BoolVal(fi.Mode().IsRegular()), nil
		}})
}

// jsonDecode is the standard library's function, for texts that are not too deep for it.
var jsonDecode = function.New(&function.Spec{Params: text("text"), Type: func(args []cty.Value) (cty.Type, error) {
	if args[0].IsKnown() {
		if _, deep := source.JSONTooDeep([]byte(args[0].AsString())); deep {
			return cty.NilType, fmt.Errorf("more than %d lists and objects are open, each inside the one before",
				source.MaxNesting)
		}
	}
	return stdlib.JSONDecodeFunc.ReturnTypeForValues(args)
}, Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return stdlib.JSONDecode(args[0]) }})

var yamlDecode = function.New(&function.Spec{Params: text("text"), Type: func(args []cty.Value) (cty.Type, error) {
	if !args[0].IsKnown() {
		return cty.DynamicPseudoType, nil
	}
	j, err := yaml.YAMLToJSON([]byte(args[0].AsString()))
	if err != nil {
		return cty.NilType, err
	}
	return jsonDecode.ReturnTypeForValues([]cty.Value{cty.StringVal(string(j))})
}, Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
	j, err := yaml.YAMLToJSON([]byte(args[0].AsString()))
	if err != nil {
		return cty.NilVal, err
	}
	return stdlib.JSONDecode(cty.StringVal(string(j)))
}})

var yamlEncode = function.New(&function.Spec{Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType,
	AllowNull: true}},
	Type: function.StaticReturnType(cty.String), Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		j, err := stdlib.JSONEncode(args[0])
		if err != nil || !j.IsKnown() {
			return j, err
		}
		y, err := yaml.JSONToYAML([]byte(j.AsString()))
		return cty.StringVal(string(y)), err
	}})

var cidrHost = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "network", Type: cty.String}, {Name: "number", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := netip.ParsePrefix(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		n, acc := args[1].AsBigFloat().Int(nil)
		if acc != big.Exact {
			return cty.NilVal, function.NewArgErrorf(1, "a whole number is wanted")
		}
		a, err := hostOf(p, n)
		return cty.StringVal(a.String()), err
	}})

var cidrNetmask = stringFunc(func(a []string) (string, error) {
	p, err := netip.ParsePrefix(a[0])
	if err != nil {
		return "", err
	}
	if !p.Addr().Is4() {
		return "", errors.New("IPv6 networks have no netmask")
	}
	m := uint32(0xffffffff) << (32 - p.Bits()) // a shift of 32 gives 0
	return netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}).String(), nil
}, "network")

var cidrSubnet = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "network", Type: cty.String}, {Name: "newbits", Type: cty.Number},
		{Name: "number", Type: cty.Number}},
	Type: function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := netip.ParsePrefix(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		bits, acc1 := args[1].AsBigFloat().Int64()
		n, acc2 := args[2].AsBigFloat().Int(nil)
		size := p.Addr().BitLen()
		if acc1 != big.Exact || acc2 != big.Exact || bits < 0 || int64(p.Bits())+bits > int64(size) {
			return cty.NilVal, fmt.Errorf("there are no subnets with %s more bits in %s", args[1].AsBigFloat().Text('f', -1), p)
		}
		length := p.Bits() + int(bits)
		if n.Sign() < 0 || n.BitLen() > int(bits) {
			return cty.NilVal, function.NewArgErrorf(2, "a subnet number of %d bits is wanted", bits)
		}
		a, err := hostOf(p.Masked(), new(big.Int).Lsh(n, uint(size-length)))
		return cty.StringVal(netip.PrefixFrom(a, length).String()), err
	}})

// hostOf is the n-th address of p; a negative n counts from its end.
func hostOf(p netip.Prefix, n *big.Int) (netip.Addr, error) {
	p = p.Masked()
	size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
	if n.Sign() < 0 {
		n = new(big.Int).Add(size, n)
	}
	if n.Sign() < 0 || n.Cmp(size) >= 0 {
		return netip.Addr{}, fmt.Errorf("%s has %s addresses; there is no number %s", p, size, n)
	}
	sum := new(big.Int).SetBytes(p.Addr().AsSlice())
	b := make([]byte, p.Addr().BitLen()/8)
	sum.Add(sum, n).FillBytes(b)
	a, _ := netip.AddrFromSlice(b)
	return a, nil
}
