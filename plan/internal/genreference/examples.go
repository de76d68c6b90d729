package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/rogpeppe/go-internal/txtar"

	"nodejoin/plan/source"
)

// examples are blocks of plans that tests compile, by the block around them, type and kind: "cluster/join",
// "step file". Of each the one with the most arguments is kept that is still short.
type examples map[string]example

type example struct {
	text      string
	arguments int
}

// examplesIn reads the plans of the corpus and of the examples, beside the folder of plan.
func examplesIn(planDir string) (examples, error) {
	out := examples{}
	for _, pattern := range []string{"../examples/*/*.join.hcl", "testdata/with/*.join.hcl", "testdata/valid/*.txtar"} {
		files, err := filepath.Glob(filepath.Join(planDir, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			src, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			if !strings.HasSuffix(name, ".txtar") {
				out.add(src)
				continue
			}
			for _, f := range txtar.Parse(src).Files {
				if strings.HasSuffix(f.Name, source.Suffix) {
					out.add(f.Data)
				}
			}
		}
	}
	return out, nil
}

func (x examples) add(src []byte) {
	f, list := hclsyntax.ParseConfig(src, "", hcl.InitialPos)
	if list.HasErrors() {
		return // a case that is not HCL, such as one that begins with a byte order mark
	}
	if body, ok := f.Body.(*hclsyntax.Body); ok {
		x.blocks(src, body, "")
	}
}

func (x examples) blocks(src []byte, body *hclsyntax.Body, parent string) {
	for _, b := range body.Blocks {
		path := parent + b.Type
		text := dedent(string(src[b.TypeRange.Start.Byte:b.CloseBraceRange.End.Byte]), b.TypeRange.Start.Column-1)
		e := example{text, len(b.Body.Attributes) + len(b.Body.Blocks)}
		for _, key := range append([]string{path}, labelled(path, b.Labels)...) {
			if have, ok := x[key]; short(text) && (!ok || e.arguments > have.arguments) {
				x[key] = e
			}
		}
		x.blocks(src, b.Body, b.Type+"/")
	}
}

// labelled is the path with the first label, which is the kind of a block that has kinds.
func labelled(path string, labels []string) []string {
	if len(labels) == 0 {
		return nil
	}
	return []string{path + " " + labels[0]}
}

func short(text string) bool {
	const lines, columns = 14, 110
	all := strings.Split(text, "\n")
	return len(all) <= lines && !slices.ContainsFunc(all, func(l string) bool { return len(l) > columns })
}

// dedent removes the indentation of the block from all lines but the first, which begins with the block.
func dedent(text string, columns int) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	indent := strings.Repeat(" ", columns)
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, indent)
	}
	return strings.Join(lines, "\n")
}
