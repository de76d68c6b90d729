package eval

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// Bounds of what one expression may make. A plan is text for machines: no real one comes near them, and a hostile or
// mistaken one ends with a diagnostic, not with the memory of the controller.
const (
	// MaxText bounds a text that a function makes, in bytes.
	MaxText = 64 << 20
	// MaxElements bounds the elements of a list that a function makes.
	MaxElements = 1_000_000
)

// size is what a call would make.
type size struct{ bytes, elements float64 }

// sizes tell, by function, what a call would make, before it is made. They have the functions whose result can be
// much larger than their arguments. An argument that is unknown, null or of the wrong type counts as nothing: the
// function itself reports it.
var sizes = map[string]func(args []cty.Value) size{
	"format":     formatSize,
	"formatlist": formatSize,
	"indent": func(args []cty.Value) size {
		text := textAt(args, 1)
		return size{bytes: float64(len(text)) + numberAt(args, 0)*float64(1+strings.Count(text, "\n"))}
	},
	"join": func(args []cty.Value) size {
		separator, total := float64(len(textAt(args, 0))), 0.0
		for _, list := range args[min(1, len(args)):] {
			forElements(list, func(e cty.Value) { total += separator + float64(len(textOf(e))) })
		}
		return size{bytes: total}
	},
	"replace": func(args []cty.Value) size {
		text, old := textAt(args, 0), textAt(args, 1)
		return size{bytes: float64(len(text)) + float64(strings.Count(text, old))*float64(len(textAt(args, 2)))}
	},
	"regexreplace": func(args []cty.Value) size {
		text := textAt(args, 0)
		return size{bytes: float64(len(text)) + float64(matches(textAt(args, 1), text))*float64(len(textAt(args, 2)))}
	},
	"regexall": func(args []cty.Value) size {
		return size{elements: float64(matches(textAt(args, 0), textAt(args, 1)))}
	},
	"split": func(args []cty.Value) size {
		return size{elements: float64(strings.Count(textAt(args, 1), textAt(args, 0)))}
	},
	"setproduct": func(args []cty.Value) size {
		n := 1.0
		for _, a := range args {
			if a, _ = a.Unmark(); a.IsKnown() && !a.IsNull() && a.CanIterateElements() {
				n *= float64(a.LengthInt())
			}
		}
		return size{elements: n}
	},
}

// verbWidth is a width or precision in a format of package cty.
var verbWidth = regexp.MustCompile(`%[-+ #0]*(?:\[\d+\])?(\d*)(?:\.(\d*))?`)

func formatSize(args []cty.Value) size {
	total := 0.0
	for _, m := range verbWidth.FindAllStringSubmatch(textAt(args, 0), -1) {
		for _, digits := range m[1:] {
			if n, err := strconv.ParseFloat(digits, 64); err == nil {
				total += n
			}
		}
	}
	return size{bytes: total}
}

// matches counts the matches of a pattern up to the bound of elements; 0 for a pattern that is not valid.
func matches(pattern, text string) int {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return 0
	}
	return len(re.FindAllStringIndex(text, MaxElements+1))
}

// tooLarge is the error for a call whose result would go beyond the bounds; nil for one within them.
func tooLarge(name string, args []cty.Value) error {
	count := sizes[name]
	if count == nil {
		return nil
	}
	switch s := count(args); {
	case s.bytes > MaxText:
		return fmt.Errorf("the result would be a text of %s bytes; %s makes at most %d", inFull(s.bytes), name, MaxText)
	case s.elements > MaxElements:
		return fmt.Errorf("the result would have %s elements or more; %s makes at most %d", inFull(s.elements), name,
			MaxElements)
	}
	return nil
}

// within reports a result that is beyond the bounds, of a function or of a local.
func within(v cty.Value) error {
	v, _ = v.Unmark()
	switch {
	case len(textOf(v)) > MaxText:
		return fmt.Errorf("the result is a text of %d bytes; at most %d are allowed", len(textOf(v)), MaxText)
	case v.IsKnown() && !v.IsNull() && v.CanIterateElements() && v.LengthInt() > MaxElements:
		return fmt.Errorf("the result has %d elements; at most %d are allowed", v.LengthInt(), MaxElements)
	}
	return nil
}

func inFull(n float64) string {
	if n < 1e15 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

func textAt(args []cty.Value, i int) string {
	if i >= len(args) {
		return ""
	}
	return textOf(args[i])
}

func textOf(v cty.Value) string {
	if v, _ = v.Unmark(); v.Type() != cty.String || !v.IsKnown() || v.IsNull() {
		return ""
	}
	return v.AsString()
}

func numberAt(args []cty.Value, i int) float64 {
	if i >= len(args) {
		return 0
	}
	v, _ := args[i].Unmark()
	if v.Type() != cty.Number || !v.IsKnown() || v.IsNull() {
		return 0
	}
	n, _ := v.AsBigFloat().Float64()
	return math.Max(n, 0)
}

func forElements(v cty.Value, do func(cty.Value)) {
	if v, _ = v.Unmark(); !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
		return
	}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		do(e)
	}
}
