package main

import (
	"fmt"
	"strings"
)

// page is ../../screens/README.md.
func page() string {
	var b strings.Builder
	b.WriteString(`# Screens

What nodejoin prints in a terminal, from real runs against sandboxes.
` + "`go run ./examples/internal/screens`" + ` takes the pictures.
A test fails when they differ from what the program prints.
`)
	for _, s := range scenes {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n![%s](%s-80.svg)\n\nAs text:", s.title, s.about, s.title, s.name)
		for i, size := range sizes {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, " [%s columns](%s-%[1]s.txt)", size, s.name)
		}
		fmt.Fprintf(&b, ". As a picture: [60 columns](%s-60.svg), [120 columns](%[1]s-120.svg).\n", s.name)
	}
	return b.String()
}
