package eval

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"sigs.k8s.io/yaml"

	"nodejoin/plan/source"
)

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
