package rule

import (
	"nodejoin/plan/block"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// stepContents reports arguments of a step whose text is not what its kind is for.
func stepContents(p *block.Plan, _ *block.Machine, a *block.Step) {
	s, args := a.Section, a.Args
	adminCredentials(p, s, args)
	switch a.Value.(type) {
	case *kinds.File:
		block.JSONFile(s, args)
		runtimeClasses(p, s, args)
	case *kinds.Manifest:
		manifestStep(p, s, args)
	}
}

// stepsOfACluster reports steps of the cluster in a plan that has none.
func stepsOfACluster(p *block.Plan) {
	for _, b := range p.Steps {
		if b.Kind.Place == steps.OnCluster && len(p.Written["cluster"]) == 0 {
			p.Fail(b.Block.LabelRanges[0], "step without a cluster", "A step of kind %q is a state of the cluster that the "+
				"nodes join, and the plan has no cluster block. Add one, or remove the step.", b.Kind.Name)
		}
	}
}
