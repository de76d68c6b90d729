package block

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/signature"
	"nodejoin/plan/trust"
)

// followTrust reads the blocks of a follow block.
func (j *settingJudge) followTrust(ctx *hcl.EvalContext) {
	j.rules = map[string]SettingBlock{}
	for _, b := range trust.First(j.Blocks.OfType(trust.SigstoreSpec.Name)) {
		in := j.Scope.Section(trust.SigstoreSpec, b, ctx)
		trust.Check(in)
		j.rules[b.Type] = says(in)
		j.OK = j.OK && in.OK
	}
	for _, b := range trust.First(j.Blocks.OfType(trust.LoginSpec.Name)) {
		in := j.Scope.Section(trust.LoginSpec, b, ctx)
		out := SettingBlock{At: b.DefRange, Args: map[string]Setting{}}
		for name, text := range trust.FollowLogin(in) {
			out.Args[name] = Setting{cty.StringVal(text), true, b.DefRange}
		}
		j.rules[b.Type] = out
		j.OK = j.OK && in.OK
	}
}

// Signers is the argument identities of a sigstore block.
func (b SettingBlock) Signers() []signature.Signer {
	return trust.Identities(b.Args["identities"].Value)
}
