package block

import (
	"slices"

	"nodejoin/plan/eval"
	"nodejoin/steps/doctor"
	"nodejoin/steps/preflight"
)

// waived reads the findings of preflight and doctor that do not count. One that does not
// occur is not a mistake: what is on a machine is not known here.
func waived(s *eval.Section) []string {
	ids := s.Strs("waive")
	checkWaived(s, "waive", ids)
	return ids
}

// checkWaived reports ids in an argument that no finding has, and those that are named twice.
func checkWaived(s *eval.Section, arg string, ids []string) {
	if len(ids) == 0 {
		return
	}
	var known []string
	for _, f := range slices.Concat(preflight.Findables(), doctor.Symptoms()) {
		known = append(known, f.ID)
	}
	for i, id := range ids {
		if slices.Contains(known, id) && !slices.Contains(ids[:i], id) {
			continue
		}
		s.OK = false
		if slices.Contains(known, id) {
			s.Scope.Fail(s.AtIndex(arg, i), "duplicate name", "%q is waived twice here. Remove one.", id)
			continue
		}
		hint := eval.DidYouMean(id, known)
		if hint == "" {
			hint = " Those that there are stand at the end of the reference of the language, under Findings."
		}
		s.Scope.Fail(s.AtIndex(arg, i), "unknown finding", "The preflight has no finding %q.%s", id, hint)
	}
}
