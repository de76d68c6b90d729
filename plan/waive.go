package plan

import (
	"slices"

	"nodejoin/steps"
)

// waived reads the findings of preflight and doctor that do not count. One that does not
// occur is no mistake: what is on a machine is not known here.
func (c *compiler) waived(s *section) []string {
	ids := s.strs("waive")
	if len(ids) == 0 {
		return nil
	}
	var known []string
	for _, f := range slices.Concat(steps.Findables(), steps.Symptoms()) {
		known = append(known, f.ID)
	}
	for i, id := range ids {
		if slices.Contains(known, id) && !slices.Contains(ids[:i], id) {
			continue
		}
		s.ok = false
		if slices.Contains(known, id) {
			c.diags.fail(s.atIndex("waive", i), "duplicate name", "%q is waived twice here. Remove one.", id)
			continue
		}
		hint := didYouMean(id, known)
		if hint == "" {
			hint = " Those that there are stand at the end of the reference of the language, under Findings."
		}
		c.diags.fail(s.atIndex("waive", i), "unknown finding", "The preflight has no finding %q.%s", id, hint)
	}
	return ids
}
