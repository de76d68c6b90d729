package engine

import (
	"fmt"

	"nodejoin/plan/compat"
	"nodejoin/steps"
)

// checkArtifactVersions refuses a plan that names another version of Kubernetes for an
// archive than the one that a host of this plan runs from it: somebody has changed the
// version and not the digest. It is the error of the step that unpacks the archive.
func (s *Session) checkArtifactVersions() {
	seen := map[string]string{} // digest of the archive -> version
	for _, h := range s.hosts {
		a := h.kubernetesArchive()
		if a != nil && a.Result.Err == nil && a.Result.Change.NoOp() && h.seen[a.Spec.ID] != "" {
			_, digest := blobOf(a.Spec).Digest()
			seen[digest] = h.seen[a.Spec.ID]
		}
	}
	for _, h := range s.hosts {
		a := h.kubernetesArchive()
		if a == nil || a.Result.Err != nil {
			continue
		}
		algorithm, digest := blobOf(a.Spec).Digest()
		is, want := seen[digest], s.plan.Cluster.Version
		if order, known := compat.Compare(is, want); !known || order == 0 {
			continue
		}
		h.report.Upgrade = nil
		a.Result.Err = &steps.Error{Code: steps.CodeFailed, Summary: "the artifact is another version",
			Detail: fmt.Sprintf("the plan wants Kubernetes %s, and the archive of this digest (%s %s) holds %s: nodes run it already", want, algorithm, digest, is),
			Remedy: fmt.Sprintf("give the artifact %s the digest of %s, and the mirror its archive; or write kubernetes = %q again", compat.KubernetesNode, want, is)}
	}
}

// kubernetesArchive is the step that unpacks the programs of Kubernetes; nil = none, or
// the host could not be checked.
func (h *hostRun) kubernetesArchive() *StepReport {
	if h.plan.Cluster == nil {
		return nil
	}
	for i := range h.report.Steps {
		if s := &h.report.Steps[i]; s.Spec.ID == compat.KubernetesNode && s.Spec.Kind == "archive" {
			return s
		}
	}
	return nil
}
