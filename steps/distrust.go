package steps

import "strings"

// ReachedAddress is the reference to the address at which the controller reached a machine, where that is the
// machine's own; else nothing fills it.
const ReachedAddress = "reached.management_ip"

// Distrust is s with references to what the controller knows, or to nothing, in place of those to what a machine
// says: its facts, and outputs of the steps that said names.
func Distrust(s Spec, said func(step string) bool) Spec {
	values := map[string]string{}
	for _, r := range ArgRefs(s.Args) {
		switch step, _, _ := strings.Cut(r, "."); {
		case r == "fact.management_ip":
			values[r] = Ref(ReachedAddress)
		case step == "fact" || said(step):
			values[r] = Ref("reached." + r) // which nothing fills
		}
	}
	s.Args = ResolveArgs(s.Args, values)
	return s
}
