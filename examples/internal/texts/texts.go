// Package texts lists what nodejoin says when something is wrong: the texts of its errors, warnings and diagnostics,
// as they stand in the source.
//
//	go test ./examples/internal/texts -v -run TestTexts
package texts

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Text is one of them.
type Text struct {
	Place string // file:line
	Is    string // the function that makes it, or the field that it fills
	Text  string // its constant parts; {} stands for what is filled in
}

// makers are functions whose arguments are such texts, fields those of structs that hold one.
var (
	makers = []string{"Errorf", "New", "Failed", "Invalid", "usagef", "say"}
	fields = []string{"Summary", "Detail", "Remedy", "Reason", "Why", "What", "Fix"}
)

// List reads the Go files below the folders of a repository, without tests.
func List(repository fs.FS, folders ...string) ([]Text, error) {
	var out []Text
	for _, folder := range folders {
		err := fs.WalkDir(repository, folder, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go") {
				return err
			}
			src, err := fs.ReadFile(repository, p)
			if err != nil {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, p, src, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				is, e := said(n)
				if text := constant(e); strings.Contains(text, " ") {
					at := set.Position(e.Pos())
					out = append(out, Text{fmt.Sprintf("%s:%d", p, at.Line), is, text})
				}
				return true
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// said is the expression of a text, nil if the node has none, and what makes it.
func said(n ast.Node) (is string, e ast.Expr) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if name := called(n.Fun); len(n.Args) > 0 && slices.Contains(makers, name) {
			return name, n.Args[0]
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(fields, key.Name) {
			return key.Name, n.Value
		}
	}
	return "", nil
}

func called(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// constant is the text of an expression, with {} for each part that is not constant; "" if nothing of it is.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		left, right := constant(e.X), constant(e.Y)
		switch {
		case e.Op != token.ADD || left+right == "":
			return ""
		case left == "":
			left = "{}"
		case right == "":
			right = "{}"
		}
		return left + right
	case *ast.CallExpr:
		if called(e.Fun) == "Sprintf" && len(e.Args) > 0 {
			return constant(e.Args[0])
		}
	}
	return ""
}
