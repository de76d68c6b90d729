package plan

import (
	"os"

	"nodejoin/plan/eval"
)

// joinFile is what join "kubeconfig" names: one file, or a folder with one for each node.
type joinFile struct {
	path   string
	folder bool
	s      *eval.Section
	warned map[string]bool // files of which was warned
}

// nodeGroup is the group, and with the node's name the user, that the node authorizer
// takes for a kubelet (kubernetes.io, "Using Node Authorization").
const (
	nodeGroup = "system:nodes"
	nodeUser  = "system:node:"
)

func givenKubeconfig(s *eval.Section) *joinFile {
	path := s.Str("path")
	if path == "" {
		return nil
	}
	g := &joinFile{path: s.Scope.Files.Home(path), s: s, warned: map[string]bool{}}
	fi, err := os.Stat(g.path)
	if err != nil {
		s.Fail("path", "unreadable kubeconfig", "The kubeconfig for the nodes cannot be read: %v.", err)
		return nil
	}
	g.folder = fi.IsDir()
	return g
}
