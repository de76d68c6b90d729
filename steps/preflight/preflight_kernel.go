package preflight

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// linuxChecks are what a kubelet on Linux needs.
var linuxChecks = []preflightCheck{
	{id: "swap", severity: steps.SeverityError, os: "linux",
		why: "the kubelet does not start while swap is on, unless its configuration allows it",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			if have := s.facts().Swap; s.q.NoSwap && have > 0 {
				return found("turn it off (swapoff -a, and its lines in /etc/fstab), or allow it in the plan: "+
					"config = { failSwapOn = false }", "%s of swap space is in use", host.FormatSize(have))
			}
			return nil, nil
		}},
	{id: "control-groups", severity: steps.SeverityError, os: "linux",
		why: "from 1.35 on the kubelet starts only with version 2 of control groups, unless its configuration allows 1",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			if have := s.facts().Cgroup; s.q.CgroupV2 && have != "v2" {
				return found("boot with systemd.unified_cgroup_hierarchy=1, or allow it in the plan: config = { "+
					"failCgroupV1 = false }", "the machine has control groups %s", cmp.Or(have, "of no known version"))
			}
			return nil, nil
		}},
	{id: "program-missing", severity: steps.SeverityError, os: "linux", why: "the node's services run it",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			var out []observed
			for _, name := range s.q.Programs {
				there, err := installed(ctx, s.r, name)
				if err != nil {
					return out, err
				}
				if !there {
					out = append(out,
						observed{fmt.Sprintf("the program %s is not installed (%s)", name,
							strings.Join(programDirs, ", ")), "install it with the machine's package manager"})
				}
			}
			return out, nil
		}},
}
