package block

import (
	"nodejoin/plan/eval"
)

// joinFile is the path of join "kubeconfig": one file, or a folder with one for each node.
type joinFile struct {
	Path   string
	Folder bool
	S      *eval.Section
	Warned map[string]bool // files of which was warned
}

// nodeGroup is the group, and with the node's name the user, that the node authorizer
// recognizes as a kubelet (kubernetes.io, "Using Node Authorization").
const (
	NodeGroup = "system:nodes"
	NodeUser  = "system:node:"
)

func givenKubeconfig(s *eval.Section) *joinFile {
	path := s.Str("path")
	if path == "" {
		return nil
	}
	g := &joinFile{Path: s.Scope.Files.Home(path), S: s, Warned: map[string]bool{}}
	fi, err := s.Scope.Files.Stat(g.Path)
	if err != nil {
		s.Fail("path", "unreadable kubeconfig", "The kubeconfig for the nodes cannot be read: %v.", err)
		return nil
	}
	g.Folder = fi.IsDir()
	return g
}
