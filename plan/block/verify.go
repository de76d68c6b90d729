package block

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/lock"
	"nodejoin/plan/signature"
	"nodejoin/plan/trust"
)

// Verify is the verify block: how the artifacts must be verified. A nil one demands nothing.
type Verify struct {
	require string            // one of lock.Ways
	single  map[string]string // what counts for single artifacts instead, by name
	Root    *signature.Root   // whom the plan trusts for signatures; nil = Sigstore's public instance
	Range   hcl.Range
}

// Least is the weakest way to verify an artifact that the plan takes.
func (v *Verify) Least(artifact string) string {
	if v == nil {
		return lock.None
	}
	if way, ok := v.single[artifact]; ok {
		return way
	}
	return v.require
}

// Names reports whether the block says by itself what counts for an artifact.
func (v *Verify) Names(artifact string) bool {
	if v == nil {
		return false
	}
	_, ok := v.single[artifact]
	return ok
}

// decodeVerify reads the verify block; nil when there is none.
func decodeVerify(sc *eval.Scope, blocks []*hcl.Block) *Verify {
	if len(blocks) == 0 {
		return nil
	}
	s := sc.Section(Root("verify"), blocks[0], sc.Ctx)
	v := &Verify{require: s.Str("require"), single: s.StrMap("artifacts"), Range: blocks[0].DefRange}
	if s.Has("require") && !slices.Contains(lock.Ways(), v.require) {
		s.Fail("require", "invalid way to verify", "%q is not a way to verify an artifact. There is %s.", v.require,
			ways())
	}
	for _, name := range slices.Sorted(maps.Keys(v.single)) {
		switch {
		case !slices.Contains(compat.ArtifactNames(), name):
			s.FailAt(s.AtKey("artifacts", name), "unknown artifact", "%s",
				eval.UnknownName("artifact", name, compat.ArtifactNames()))
		case !slices.Contains(lock.Ways(), v.single[name]):
			s.FailAt(s.AtKey("artifacts", name), "invalid way to verify",
				"%q is not a way to verify an artifact. There is %s.", v.single[name], ways())
		}
	}
	if s.Has("trust_root") {
		v.Root = trust.Root(s)
	}
	return v
}

func ways() string {
	var list []string
	for _, way := range lock.Ways() {
		list = append(list, `"`+way+`"`)
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
