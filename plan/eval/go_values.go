package eval

import (
	"encoding"
	"encoding/base64"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// Types of Go that the language writes as text.
var (
	DurationType = reflect.TypeOf(time.Duration(0))
	BytesType    = reflect.TypeOf([]byte(nil))
)

// CtyType returns the type of a field in the language.
func CtyType(t reflect.Type) cty.Type {
	if t == DurationType || t == BytesType || IsText(t) {
		return cty.String
	}
	switch t.Kind() {
	case reflect.String:
		return cty.String
	case reflect.Bool:
		return cty.Bool
	case reflect.Int, reflect.Int64, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return cty.Number
	case reflect.Slice:
		return cty.List(CtyType(t.Elem()))
	case reflect.Map:
		return cty.Map(CtyType(t.Elem()))
	case reflect.Struct:
		attrs, optional := map[string]cty.Type{}, []string{}
		for i := range t.NumField() {
			name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			attrs[name] = CtyType(t.Field(i).Type)
			if strings.Contains(opts, "omitempty") {
				optional = append(optional, name)
			}
		}
		return cty.ObjectWithOptionalAttrs(attrs, optional)
	}
	panic(fmt.Sprintf("plan: no type of the language for %s", t))
}

// GoValue turns a value of CtyType(t) into what encoding/json writes for t.
func GoValue(v cty.Value, t reflect.Type) (any, error) {
	switch {
	case t == DurationType:
		d, err := time.ParseDuration(v.AsString())
		if err != nil {
			return nil, fmt.Errorf("%q is not a duration; write a number with its unit, for example \"10s\"", v.AsString())
		}
		return int64(d), nil
	case t == BytesType:
		if _, err := base64.StdEncoding.DecodeString(v.AsString()); err != nil {
			return nil, fmt.Errorf("it must be base64")
		}
		return v.AsString(), nil
	case IsText(t):
		if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(v.AsString())); err != nil {
			return nil, err
		}
		return v.AsString(), nil
	}
	switch t.Kind() {
	case reflect.String:
		return v.AsString(), nil
	case reflect.Bool:
		return v.True(), nil
	case reflect.Slice:
		out := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			if e.IsNull() {
				return nil, fmt.Errorf("it holds a null element")
			}
			g, err := GoValue(e, t.Elem())
			if err != nil {
				return nil, err
			}
			out = append(out, g)
		}
		return out, nil
	case reflect.Map:
		out := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			if e.IsNull() {
				return nil, fmt.Errorf("it has no value for %q", k.AsString())
			}
			g, err := GoValue(e, t.Elem())
			if err != nil {
				return nil, err
			}
			out[k.AsString()] = g
		}
		return out, nil
	case reflect.Struct:
		return goStruct(v, t)
	}
	return number(v.AsBigFloat(), t)
}

// goStruct is GoValue for a struct.
func goStruct(v cty.Value, t reflect.Type) (any, error) {
	out := map[string]any{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		e := v.GetAttr(name)
		if e.IsNull() {
			continue
		}
		g, err := GoValue(e, t.Field(i).Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = g
	}
	return out, nil
}

// IsText reports whether values of a type are written as text, as encoding/json does.
func IsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func number(f *big.Float, t reflect.Type) (any, error) {
	bits := t.Bits()
	if k := t.Kind(); k == reflect.Int || k == reflect.Int64 {
		n, acc := f.Int64()
		if acc != big.Exact {
			return nil, fmt.Errorf("it must be a whole number")
		}
		return n, nil
	}
	n, acc := f.Uint64()
	if acc != big.Exact || bits < 64 && n >= 1<<bits {
		return nil, fmt.Errorf("it must be a whole number from 0 to %d", uint64(1<<bits-1))
	}
	return n, nil
}
