package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FewNames lists names, of which those that count up are a range ("win-1 to win-50"), in at most most entries.
func FewNames(names []string, most int) string {
	spans := spansOf(names)
	var out []string
	left := len(names)
	for _, s := range spans[:min(most, len(spans))] {
		out = append(out, s.text)
		left -= s.count
	}
	text := strings.Join(out, ", ")
	if left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// span is a name, or three and more that count up.
type span struct {
	text  string
	count int
}

func spansOf(names []string) (out []span) {
	list := make([]numbered, 0, len(names))
	for _, name := range names {
		list = append(list, numberedOf(name))
	}
	slices.SortStableFunc(list, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.stem, b.stem), cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
	})
	for i := 0; i < len(list); {
		end := i
		for end+1 < len(list) && list[end].before(list[end+1]) {
			end++
		}
		if end-i >= 2 {
			out = append(out, span{list[i].name + " to " + list[end].name, end - i + 1})
		} else {
			for _, x := range list[i : end+1] {
				out = append(out, span{x.name, 1})
			}
		}
		i = end + 1
	}
	return out
}

// numbered is a name with the number at its end, -1 without one.
type numbered struct {
	name, stem string
	number     int
}

func numberedOf(name string) numbered {
	stem := strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(stem):])
	if err != nil {
		n = -1
	}
	return numbered{name, stem, n}
}

// before reports whether b is next to a: win-9 to win-10, lin-009 to lin-010.
func (a numbered) before(b numbered) bool {
	padded := strings.HasPrefix(a.name[len(a.stem):], "0")
	return a.stem == b.stem && a.number >= 0 && b.number == a.number+1 && (!padded || len(a.name) == len(b.name))
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}
