package rule

import (
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

var documentEnd = regexp.MustCompile(`(?m)^---.*$`)

// manifestStep checks the objects of a step, as far as they are known.
func manifestStep(p *block.Plan, s *eval.Section, args map[string]any) {
	text, _ := args["content"].(string)
	if text == "" || steps.HasRef(text) {
		return
	}
	if _, err := (&kinds.Manifest{Content: text}).Objects(); err != nil {
		s.Fail("content", "invalid manifest",
			"The content is not a manifest: %s. Write objects as for kubectl apply, with a line of --- between them.",
			steps.AsError(err).Detail)
		return
	}
	runtimeClasses(p, s, args)
}

// runtimeClasses warns of a file with RuntimeClasses that the cluster or its nodes
// would refuse: the older guides have a handler "docker" for Windows.
func runtimeClasses(p *block.Plan, s *eval.Section, args map[string]any) {
	text, _ := args["content"].(string)
	if p.Cluster == nil || p.Cluster.Version == "" || p.Cluster.Base.Runtime.Kind == "" || !strings.Contains(text,
		"RuntimeClass") {
		return
	}
	for _, part := range documentEnd.Split(text, -1) {
		var object struct{ APIVersion, Kind, Handler string }
		// What is not YAML, or is known only later, is not checked here.
		if steps.HasRef(part) || yaml.Unmarshal([]byte(part), &object) != nil || object.Kind != "RuntimeClass" ||
			object.Handler == "" {
			continue
		}
		if v := compat.CheckRuntimeClass(object.APIVersion, object.Handler, p.Cluster.Base.Runtime.Kind,
			p.Cluster.Version); !v.Accepted() {
			p.Warn(s.At("content"), "RuntimeClass that does not work",
				"The content holds a RuntimeClass of %s with the handler %q: %s%s", object.APIVersion, object.Handler, v.Why,
				block.Instead(v))
		}
	}
}
