package main

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// What differs from run to run and from machine to machine.
var (
	varies = []struct {
		pattern *regexp.Regexp
		mask    string
	}{
		{regexp.MustCompile(`\b20\d{6}-\d{6}-\w{6}\b`), "RUN"},
		{regexp.MustCompile(`( prod +)[a-zA-Z]\S*( +\d+ +\d+ )`), "${1}SOMEBODY$2"}, // whose run it was
		{regexp.MustCompile(`\b20\d\d-?\d\d-?\d\d[ T]?\d\d:?\d\d(:?\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
		{regexp.MustCompile(`(\d+/\d+ steps).*`), "$1"},          // then a bar, where an estimate leaves room
		{regexp.MustCompile(`(inventory +waits until).*`), "$1"}, // what it sees comes later
		{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|µs|s|m)\b`), "TOOK"},
		{regexp.MustCompile(`TOOK to TOOK`), "TOOK"},
		{regexp.MustCompile(` +[\d.]+ [kMG]?B/s`), ""},
		{regexp.MustCompile(`[━─]+`), "BAR"},
		{regexp.MustCompile(`(<(c2|d)> BAR <>\s*)+`), "BAR "}, // of a picture: the full part, the empty part, or both
		{regexp.MustCompile(`[\d.]+ kB/`), "SOME/"},
		{regexp.MustCompile(`\b127\.0\.0\.1:\d+`), "ADDRESS"},
		{regexp.MustCompile(`.{0,8}\.\.\. `), "... "},    // cut off where a time begins
		{regexp.MustCompile(`C:\\monitoring +`), "... "}, // which a short time leaves room for
	}
	// machine is who holds a lock. It wraps where it is longer.
	machine = regexp.MustCompile(`by \S+ on \S+ \(process \d+\)`)
	spaces  = regexp.MustCompile(`[ \t]+`)
	tag     = regexp.MustCompile(`<(?:text(?: class="([^"]*)")?|/?svg|rect)[^>]*>|</text>`)
	// unordered are lines of hosts that work side by side.
	unordered = regexp.MustCompile(`(?m)(^[ <>\w]*win-\d+:[ <>\w]* x .*\n)+`)
	style     = regexp.MustCompile(` <[ \w]*> `)
	marked    = regexp.MustCompile(`(?m)^ *\| ?`)
)

// plain is a file without what differs from run to run. Of a picture it is each text with its colour.
func plain(name, text string) string {
	if path.Ext(name) == ".svg" {
		text = tag.ReplaceAllString(text, " <$1> ")
	}
	text = unordered.ReplaceAllStringFunc(text, func(s string) string {
		lines := strings.SplitAfter(s, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "")
	})
	blocks := strings.Split(text, "\n\n")
	for i, b := range blocks {
		whole := strings.Join(strings.Fields(marked.ReplaceAllString(style.ReplaceAllString(b, ""), "")), " ")
		if machine.MatchString(whole) {
			blocks[i] = machine.ReplaceAllString(mask(whole), "by SOMEBODY")
			continue
		}
		lines := strings.Split(b, "\n")
		for j, l := range lines {
			lines[j] = mask(l)
		}
		// A table with a time in it may have wider columns.
		if blocks[i] = strings.Join(lines, "\n"); blocks[i] != b {
			blocks[i] = spaces.ReplaceAllString(blocks[i], " ")
		}
	}
	return strings.Join(blocks, "\n\n")
}

func mask(s string) string {
	for _, v := range varies {
		s = v.pattern.ReplaceAllString(s, v.mask)
	}
	return s
}
