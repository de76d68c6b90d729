package block

import (
	"net/url"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/names"
	"nodejoin/plan/origin"
	"nodejoin/plan/trust"
)

// followSpec is the plan that a node follows by itself.
var followSpec = &eval.Spec{Name: "follow", One: true,
	Doc: "the plan whose signed releases a node applies to itself; see following.md", Attrs: []eval.Attr{
		{Name: "plan", Typ: cty.String, Doc: "name of the plan in its releases, which is that of the bundle without its " +
			"ending, or what --plan-name gives"},
		{Name: "source", Typ: cty.String, Doc: "where the newest release is: \"https://...\", " +
			"\"oci://HOST/REPOSITORY:TAG\", or an absolute path on the node"},
		{Name: "signers", Typ: cty.String, Doc: "keys of SSH that may sign releases, as allowed_signers of " +
			"ssh-keygen: file(\"allowed_signers\")"},
		{Name: "windows", Typ: eval.Strings, Doc: "times of the week at which a release is applied, in UTC, " +
			"\"Sat,Sun 22:00-04:00\" or \"01:00-05:00\"; default any time"},
		{Name: "jitter", Typ: cty.String, Doc: "longest random pause before a release is applied, default none"},
		{Name: "interval", Typ: cty.String, Doc: "how often the node checks the source, default \"5m\""},
		{Name: "values", Typ: eval.StrMap, Secret: true, Doc: "values of the plan's variables that its bundle does not " +
			"have; they may be sensitive"},
		{Name: "evict", Typ: cty.Bool, Doc: "true: the node's account may evict pods, of any node, as a release that " +
			"drains the node needs; default false"},
		{Name: "url", Typ: cty.String, Doc: "address of the program nodejoin for the node; default is the program that " +
			"applies the plan, if it is for the same platform"},
		{Name: "file", Typ: cty.String, Doc: "the same as a file on the controller, relative to the plan"},
		{Name: "sha256", Typ: cty.String, Doc: "digest of url or file in hex"},
		{Name: "sha512", Typ: cty.String, Doc: "the same"},
	}, Blocks: []*eval.Spec{trust.SigstoreSpec, trust.LoginSpec}}

// maxJitter is the longest pause that 'nodejoin follow' makes.
const maxJitter = 6 * time.Hour

func (j *settingJudge) follow() {
	if name := j.Str("plan"); name != "" && !names.IsDNS(name) {
		j.Fail("plan", "invalid name", "%q cannot be the name of a plan. It has a-z, 0-9, '-' and '.'.", name)
	}
	text := j.Str("source")
	if u, err := url.Parse(text); strings.Contains(text, "://") && !origin.IsOCI(text) &&
		(err != nil || u.Scheme != "https" || u.Host == "") {
		j.Fail("source", "invalid source", "%q is not where a release can be. Write https://..., "+
			"oci://HOST/REPOSITORY:TAG, or an absolute path on the node.", text)
	}
	if text := j.Str("signers"); text != "" {
		if _, err := names.Signers(text); err != nil {
			j.Fail("signers", "invalid keys", "The argument \"signers\" is the content of a file of keys, "+
				"file(\"allowed_signers\"), with lines such as 'ops@example ssh-ed25519 AAAA...': %v.", err)
		}
	}
	j.timesOfWeek("windows")
	j.Duration("jitter", 0, maxJitter, 0)
	j.Duration("interval", 10*time.Second, 24*time.Hour, 0)
	origin.Artifact(j.Section, j.Block.DefRange, j.Has("url") || j.Has("file"))
	if f := j.Str("file"); f != "" { // of a profile of a module, it begins at the module's folder
		j.Values["file"] = cty.StringVal(j.Scope.Files.Home(f))
	}
}
