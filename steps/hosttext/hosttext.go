// Package hosttext makes the text of machines harmless. What a host says passes Strings once, where it arrives:
// behind that nothing of it can move a cursor, hide a line or forge one.
package hosttext

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// LinesTag marks a string field that may hold line feeds: `lines:"true"`. Every other string of a reply is one line.
const LinesTag = "lines"

// Clean escapes what a terminal would obey: control characters but line feeds and tabs, the marks that reverse
// the direction of text, and bytes that are not UTF-8.
func Clean(s string) string {
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ReplaceAll(s, "\r\n", "\n") {
		switch {
		case !bad(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func bad(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\ufeff' ||
		r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar)
}

// Line is Clean for text that must stay on one line.
func Line(s string) string { return strings.ReplaceAll(Clean(s), "\n", `\n`) }

// Longest bounds one text that Short returns, in bytes.
const Longest = 8 << 10

// Short cuts a clean text that is longer than Longest.
func Short(s string) string {
	if len(s) <= Longest {
		return s
	}
	return Clean(s[:Longest]) + " (cut)"
}

// Strings cleans every string that v, a pointer, leads to, also those of maps and their keys.
func Strings(v any) { clean(reflect.ValueOf(v), false) }

func clean(v reflect.Value, lines bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			clean(v.Elem(), lines)
		}
	case reflect.Interface:
		if !v.IsNil() && v.CanSet() {
			c := reflect.New(v.Elem().Type()).Elem()
			c.Set(v.Elem())
			clean(c, lines)
			v.Set(c)
		}
	case reflect.String:
		if have := v.String(); v.CanSet() {
			if want := text(have, lines); want != have {
				v.SetString(want)
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k == reflect.Uint8 {
			return // bytes are not text
		}
		for i := range v.Len() {
			clean(v.Index(i), lines)
		}
	case reflect.Map:
		cleanMap(v, lines)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				clean(v.Field(i), f.Tag.Get(LinesTag) == "true")
			}
		}
	}
}

// cleanMap makes the map again where a key or a value changes.
func cleanMap(v reflect.Value, lines bool) {
	if v.IsNil() {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for it := v.MapRange(); it.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(it.Key())
		value.Set(it.Value())
		clean(key, false)
		clean(value, lines)
		out.SetMapIndex(key, value)
	}
	v.Set(out)
}

func text(s string, lines bool) string {
	if lines {
		return Clean(s)
	}
	return Line(s)
}
