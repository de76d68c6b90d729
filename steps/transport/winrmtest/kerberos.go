package winrmtest

import (
	"bytes"
	"crypto/rand"
	"errors"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/service"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"nodejoin/steps/transport/sealed"
)

// kerberos is the side of a server in Kerberos.
type kerberos struct {
	user, keytab string
	bindings     []byte // of the server's certificate; nil = it has none
	strict       bool   // logins must have them
}

// verify logs the user in by a token of SPNEGO, or a bare one of Kerberos (RFC 4559). Where the client wants a
// proof, there is an answer, and the session that seals messages.
func (k kerberos) verify(token []byte) (answer []byte, session *sealed.Session, err error) {
	keys, err := keytab.Load(k.keytab)
	if err != nil {
		return nil, nil, err
	}
	var t spnego.SPNEGOToken
	var inner spnego.KRB5Token
	bare := inner.Unmarshal(token) == nil
	if !bare {
		if err := errors.Join(t.Unmarshal(token), inner.Unmarshal(t.NegTokenInit.MechTokenBytes)); err != nil {
			return nil, nil, err
		}
	}
	if !inner.IsAPReq() {
		return nil, nil, errors.New("no login")
	}
	r := &inner.APReq
	ok, creds, err := service.VerifyAPREQ(r, service.NewSettings(keys, service.DecodePAC(false)))
	if err != nil || !ok || creds.UserName() != k.user {
		return nil, nil, errors.Join(err, errors.New("not the user"))
	}
	sum := r.Authenticator.Cksum.Checksum // RFC 4121, 4.1.1
	if len(sum) < 24 {
		return nil, nil, errors.New("no checksum of GSS-API")
	}
	if bound := sum[4:20]; !bytes.Equal(bound, k.bindings) && (k.strict || !bytes.Equal(bound, make([]byte, 16))) {
		return nil, nil, errors.New("the login is not for this connection")
	}
	if !types.IsFlagSet(&r.APOptions, flags.APOptionMutualRequired) {
		return nil, nil, nil
	}
	answer, session, err = proof(r)
	if err != nil || bare {
		return answer, session, err
	}
	t = spnego.SPNEGOToken{Resp: true, NegTokenResp: spnego.NegTokenResp{
		NegState: asn1.Enumerated(spnego.NegStateAcceptCompleted), SupportedMech: gssapi.OIDKRB5.OID(),
		ResponseToken: answer}}
	answer, err = t.Marshal()
	return answer, session, err
}

// proof is the answer to a request: that the server has the key of its ticket (RFC 4120, 5.5.2), and a subkey.
func proof(r *messages.APReq) (answer []byte, session *sealed.Session, err error) {
	key := r.Ticket.DecryptedEncPart.Key
	a := sealed.Agreed{Key: types.EncryptionKey{KeyType: key.KeyType, KeyValue: make([]byte, len(key.KeyValue))},
		Acceptor: true, Client: uint32(r.Authenticator.SeqNumber), Server: 4711}
	_, _ = rand.Read(a.Key.KeyValue)
	if session, err = sealed.Kerberos(a, sealed.Server); err != nil {
		return nil, nil, err
	}
	plain, err := asn1.Marshal(messages.EncAPRepPart{CTime: r.Authenticator.CTime, Cusec: r.Authenticator.Cusec,
		Subkey: a.Key, SequenceNumber: int64(a.Server)})
	if err != nil {
		return nil, nil, err
	}
	part, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(plain, asnAppTag.EncAPRepPart), key,
		keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, nil, err
	}
	reply, err := asn1.Marshal(messages.APRep{PVNO: iana.PVNO, MsgType: msgtype.KRB_AP_REP, EncPart: part})
	if err != nil {
		return nil, nil, err
	}
	oid, err := asn1.Marshal(gssapi.OIDKRB5.OID())
	if err != nil {
		return nil, nil, err
	}
	token := slices(oid, []byte{2, 0}, asn1tools.AddASNAppTag(reply, asnAppTag.APREP))
	return asn1tools.AddASNAppTag(token, 0), session, nil
}
