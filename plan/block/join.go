package block

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// joinSpecs are the ways in which a kubelet gets its first credentials.
var joinSpecs = map[string]*eval.Spec{
	"bootstrap_token": {Name: "join", Doc: "a token that is minted when it is needed and revoked after",
		Attrs: []eval.Attr{
			{Name: "ttl", Typ: cty.String, Doc: "life of the bootstrap token, default 15m"},
		}},
	"kubeadm": {Name: "join", Doc: "kubeadm, as a worker (Kubernetes 1.30 and later; Linux nodes with systemd)",
		Attrs: []eval.Attr{
			{Name: "ttl", Typ: cty.String, Doc: "life of the bootstrap token, default 15m"},
			{Name: "ignore_preflight_errors", Typ: eval.Strings,
				Doc: "preflight checks whose errors do not end the join, by the names that kubeadm gives them"},
		}},
	"kubeconfig": {Name: "join", Doc: "a kubeconfig that is put on the nodes for their kubelets", Attrs: []eval.Attr{
		{Name: "path", Typ: cty.String, Required: true,
			Doc: "kubeconfig on the controller, or a folder that holds one for each node, NAME.conf"},
	}},
}

const defaultTokenTTL = 15 * time.Minute

// joinBlock reads the join block of the cluster; without one it is a bootstrap token.
func decodeJoin(s *eval.Section, k *ClusterBlocks) {
	in := &k.Base
	in.Join = recipe.Join{Kind: "bootstrap_token", TTL: defaultTokenTTL}
	for _, b := range s.Blocks.OfType("join") {
		spec := s.Scope.Kind(s.Spec.Child("join"), b)
		if spec == nil {
			continue
		}
		js := s.Scope.Section(spec, b, s.Scope.Ctx)
		in.Join = recipe.Join{Kind: b.Labels[0]}
		switch in.Join.Kind {
		case "bootstrap_token":
			in.Join.TTL = js.Duration("ttl", time.Minute, 24*time.Hour, defaultTokenTTL)
		case "kubeadm":
			in.Join.TTL = js.Duration("ttl", time.Minute, 24*time.Hour, defaultTokenTTL)
			in.Join.IgnorePreflightErrors = preflightChecks(js)
		case "kubeconfig":
			k.JoinFile = givenKubeconfig(js)
		}
	}
}

// preflightCheck is a name that kubeadm may give a check: "Port-10250",
// "FileAvailable-\etc\kubernetes\pki\ca.crt".
var preflightCheck = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.\\-]*$`)

// preflightChecks reads the names of the checks whose errors are ignored.
func preflightChecks(s *eval.Section) []string {
	names := s.Strs("ignore_preflight_errors")
	for i, n := range names {
		at := s.AtIndex("ignore_preflight_errors", i)
		switch {
		case !preflightCheck.MatchString(n):
			s.FailAt(at, "invalid preflight check", "%q is not a name of a check. Write one name for each element, as kubeadm "+
				"prints it in brackets: from [ERROR Port-10250] that is \"Port-10250\".", n)
		case slices.ContainsFunc(names[:i], func(o string) bool { return strings.EqualFold(o, n) }):
			s.FailAt(at, "duplicate preflight check",
				"The check %q is named twice; kubeadm ignores case. Remove one.", n)
		case strings.EqualFold(n, "all"):
			s.Scope.Warn(at, "all preflight errors ignored", "kubeadm then goes on whatever is wrong with a machine, and "+
				"the failures that follow are harder to understand than its checks. Name the checks that do not matter here.")
		}
	}
	return names
}
