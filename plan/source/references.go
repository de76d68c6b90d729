package source

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Reference is a place where something is named: var.x, local.x, module.x or data.exec.x, whose name is "exec.x". The
// name is "" where data is named in another way, as in keys(data.exec).
type Reference struct {
	Root, Name string
	At         hcl.Range
}

// References finds every var.x, local.x, module.x and data.KIND.x that is written anywhere in the plan, or in the
// module whose files these are.
func (s *Files) References() []Reference {
	var out []Reference
	for _, name := range slices.Sorted(maps.Keys(s.Parser.Files())) {
		if s.modules.of[name] != s.module {
			continue
		}
		body, ok := s.Parser.Files()[name].Body.(*hclsyntax.Body)
		if !ok {
			continue
		}
		_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
			e, ok := n.(*hclsyntax.ScopeTraversalExpr)
			if !ok || len(e.Traversal) < 2 {
				return nil
			}
			a, ok := e.Traversal[1].(hcl.TraverseAttr)
			switch root := e.Traversal.RootName(); {
			case !ok:
			case root == "var", root == "local", root == "module":
				out = append(out, Reference{root, a.Name, e.Range()})
			case root == "data":
				name := ""
				if len(e.Traversal) > 2 {
					if b, ok := e.Traversal[2].(hcl.TraverseAttr); ok {
						name = a.Name + "." + b.Name
					}
				}
				out = append(out, Reference{root, name, e.Range()})
			}
			return nil
		})
	}
	return out
}

// Mentions reports whether an expression in body names root, or may do so unseen.
func Mentions(body hcl.Body, root string) bool {
	b, ok := body.(*hclsyntax.Body)
	if !ok {
		return true
	}
	found := false
	_ = hclsyntax.VisitAll(b, func(n hclsyntax.Node) hcl.Diagnostics {
		if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok && e.Traversal.RootName() == root {
			found = true
		}
		return nil
	})
	return found
}
