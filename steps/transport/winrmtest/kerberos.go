package winrmtest

import (
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/service"
	"github.com/jcmturner/gokrb5/v8/spnego"
)

// kerberos reports whether a token of SPNEGO logs the user in to who has the keys of a file.
func kerberos(file, user string, token []byte) bool {
	keys, err := keytab.Load(file)
	if err != nil {
		return false
	}
	var t spnego.SPNEGOToken
	if t.Unmarshal(token) != nil {
		return false
	}
	ok, ctx, _ := spnego.SPNEGOService(keys, service.DecodePAC(false)).AcceptSecContext(&t)
	if !ok || ctx == nil {
		return false
	}
	const who = "github.com/jcmturner/gokrb5/v8/ctxCredentials"
	c, _ := ctx.Value(who).(*credentials.Credentials)
	return c != nil && c.UserName() == user
}
