package engine

import (
	"context"
	"fmt"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
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
		a.Result.Err = &steps.Error{Code: steps.CodeOtherVersion, Summary: "the artifact is another version",
			Detail: fmt.Sprintf("the plan wants Kubernetes %s, and the archive of this digest (%s %s) holds %s: a "+
				"node of the plan runs it", want, algorithm, digest, is),
			Remedy: fmt.Sprintf("give the artifact %s the digest of %s, and the mirror its archive; or write "+
				"kubernetes = %q again", compat.KubernetesNode, want, is)}
	}
}

// versionSeen is the version of the archive that the run observed running, by the step that unpacked it:
// that of the plan, after whose gate the run came to its end, or another one at which it failed. nil = it
// has seen none.
func (h *hostRun) versionSeen(ctx context.Context, sum HostSummary) map[string]string {
	if h.node.Partial || h.kubernetesArchive() == nil {
		return nil
	}
	version := h.plan.Cluster.Version
	if sum.Err != nil {
		if steps.AsError(sum.Err).Code != steps.CodeOtherVersion || sum.Rollback != nil {
			return nil
		}
		n, err := h.api.Node(ctx, h.node.Name)
		if err != nil {
			return nil
		}
		version = compat.Canonical(n.KubeletVersion)
	}
	return map[string]string{compat.KubernetesNode: version}
}

// kubernetesArchive is the step that unpacks the programs of Kubernetes; nil = none, or
// the host could not be checked.
func (h *hostRun) kubernetesArchive() *StepReport {
	if h.plan.Cluster == nil {
		return nil
	}
	for i := range h.report.Steps {
		s := &h.report.Steps[i]
		if _, ok := kinds.Installs(s.Spec); ok && s.Spec.ID == compat.KubernetesNode {
			return s
		}
	}
	return nil
}
