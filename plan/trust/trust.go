// Package trust is the blocks that say whom a machine trusts, and with which login it reads: their arguments, and what
// is wrong with them.
package trust

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/signature"
	"nodejoin/steps"
)

// SigstoreSpec is whose signatures of Sigstore count for a node that follows a plan.
var SigstoreSpec = &eval.Spec{Name: "sigstore", One: true, Doc: "who may sign releases with cosign ('cosign " +
	"sign-blob --bundle'), beside the keys of signers or instead of them", Attrs: []eval.Attr{
	{Name: "identities", Typ: cty.List(cty.ObjectWithOptionalAttrs(map[string]cty.Type{"issuer": cty.String,
		"identity": cty.String, "identity_regexp": cty.String}, []string{"identity", "identity_regexp"})),
		Doc: "who may sign without a key: { issuer = \"https://token.actions.githubusercontent.com\", identity = " +
			"\"https://github.com/...\" }, as the certificate has them; or identity_regexp, which the whole " +
			"identity must match"},
	{Name: "keys", Typ: eval.Strings, Doc: "public keys that may sign, [file(\"cosign.pub\")]"},
	{Name: "trust_root", Typ: cty.String, Doc: "certificate authorities and logs that vouch for identities, as " +
		"Sigstore publishes them: file(\"trusted_root.json\"); default those of Sigstore's public instance when this " +
		"nodejoin was built"},
}}

// LoginSpec is the login with which a node reads the source of its plan.
var LoginSpec = &eval.Spec{Name: "login", One: true, Doc: "login at the server of source, which alone gets " +
	"it. The node keeps it, in a file that only root, or administrators, can read", Attrs: []eval.Attr{
	{Name: "username", Typ: cty.String, Doc: "user"},
	{Name: "password_env", Typ: cty.String, Doc: "environment variable of the controller that holds the user's " +
		"password"},
	{Name: "token_file", Typ: cty.String, Doc: "file on the controller, relative to the plan, with a token that the " +
		"server takes as it is (Authorization: Bearer), instead of username and password"},
}}

// Check reports what is wrong with a sigstore block.
func Check(s *eval.Section) {
	identities, keys := Identities(s.Values["identities"]), s.Strs("keys")
	for i, one := range identities {
		if err := one.Check(); err != nil {
			s.FailAt(s.AtIndex("identities", i), "invalid identity", "This does not say who may sign: %v.", err)
		}
	}
	for i, text := range keys {
		if err := signature.CheckKey(text); err != nil {
			s.FailAt(s.AtIndex("keys", i), "invalid key", "The argument \"keys\" has the content of files of public "+
				"keys, [file(\"cosign.pub\")]: %v.", err)
		}
	}
	if s.OK && len(identities)+len(keys) == 0 && !s.Misspelt("identities") && !s.Misspelt("keys") {
		s.FailAt(s.Block.DefRange, "missing argument", "There is nobody who may sign: give \"identities\" or \"keys\".")
	}
	switch {
	case !s.Has("trust_root"):
	case !s.Has("identities") && !s.Misspelt("identities"):
		s.Fail("trust_root", "argument without effect", "A trust root vouches for identities, and the block has none. "+
			"Remove it, or give \"identities\".")
	default:
		Root(s)
	}
}

// Root reads the argument trust_root; nil = it is wrong.
func Root(s *eval.Section) *signature.Root {
	root, err := signature.ParseRoot([]byte(s.Str("trust_root")))
	if err != nil {
		s.Fail("trust_root", "invalid trust root", "The argument \"trust_root\" is the content of a "+
			"trusted_root.json of Sigstore, file(\"trusted_root.json\"): %s.", err)
	}
	return root
}

// Identities reads the argument of that name; cty.NilVal = it is not given.
func Identities(v cty.Value) (out []signature.Signer) {
	if v == cty.NilVal {
		return nil
	}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		text := func(name string) string {
			if e.IsNull() || e.GetAttr(name).IsNull() {
				return ""
			}
			return e.GetAttr(name).AsString()
		}
		out = append(out, signature.Signer{Issuer: text("issuer"), Identity: text("identity"),
			Regexp: text("identity_regexp")})
	}
	return out
}

// Login reads the user or the token of a block with the arguments of a login.
func Login(s *eval.Section) (l steps.Login) {
	switch {
	case s.Has("token_file"):
		l.Token = s.Token()
	case !s.Has("username") && !s.Has("password_env") && !s.Misspelt("username") && !s.Misspelt("password_env") &&
		!s.Misspelt("token_file"):
		s.FailAt(s.Block.DefRange, "missing argument", "There is neither a user nor a token: give \"username\" and "+
			"\"password_env\", or \"token_file\".")
	case s.Together("username", "password_env"):
		l.Username, l.Password = s.User()
	}
	return l
}

// FollowLogin is the login of a follow block, by the names of its parts; that of the scope stands for all of them.
func FollowLogin(s *eval.Section) map[string]string {
	l := s.Scope.FollowLogin
	if l == nil {
		read := Login(s)
		l = &read
	}
	return map[string]string{"username": l.Username, "password": l.Password, "token": l.Token}
}

// First is the first of blocks of which there may be one. The section has reported the others.
func First(list hcl.Blocks) hcl.Blocks { return list[:min(len(list), 1)] }
