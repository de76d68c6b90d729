// Package kerberos logs a user in to services over HTTP by Kerberos (RFC 4120, RFC 4559), with the realms and servers
// of the controller's krb5.conf.
package kerberos

import (
	"bytes"
	"cmp"
	"crypto/md5" //nolint:gosec // of channel bindings
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"nodejoin/steps/transport/sealed"
)

// Client is a user. Its requests to a KDC are bounded by some seconds for each KDC of the realm.
type Client struct {
	mu      sync.Mutex // a token at a time
	of      *client.Client
	service string // "HTTP/win-1.example.com"
}

// New returns the client of a user, "user@REALM" or "user" of the default realm, for the HTTP server of host. Without
// a password it has the tickets that kinit got: those of KRB5CCNAME, a file.
func New(user, password, host string) (*Client, error) {
	file := cmp.Or(os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf")
	conf, err := config.Load(file)
	if skipped := (config.UnsupportedDirective{}); err != nil && !errors.As(err, &skipped) {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	service := "HTTP/" + host
	name, realm, given := strings.Cut(user, "@")
	if !given {
		realm = conf.LibDefaults.DefaultRealm
	}
	switch {
	case strings.Contains(user, `\`):
		return nil, fmt.Errorf("%q is not a principal: write user@REALM", user)
	case realm == "":
		return nil, fmt.Errorf("%q has no realm, and %s has no default_realm", user, file)
	case password != "":
		of := client.NewWithPassword(name, realm, password, conf, client.DisablePAFXFAST(true))
		return &Client{of: of, service: service}, nil
	}
	of, err := fromCache(name+"@"+realm, conf)
	if err != nil {
		return nil, err
	}
	return &Client{of: of, service: service}, nil
}

// fromCache is the client of a user whose tickets are in a file.
func fromCache(user string, conf *config.Config) (c *client.Client, err error) {
	file := cmp.Or(os.Getenv("KRB5CCNAME"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()))
	if kind, path, ok := strings.Cut(file, ":"); ok {
		if kind != "FILE" {
			return nil, fmt.Errorf("the tickets are in %q, and nodejoin reads files only: set KRB5CCNAME to a file for "+
				"kinit, too", file)
		}
		file = path
	}
	defer caught(&err, file)
	cache, err := credentials.LoadCCache(file)
	if err != nil {
		return nil, fmt.Errorf("read the tickets: %w", err)
	}
	if have := cache.GetClientPrincipalName().PrincipalNameString() + "@" + cache.GetClientRealm(); have != user {
		return nil, fmt.Errorf("%s has tickets of %s, not of %s: run kinit %s", file, have, user, user)
	}
	if c, err = client.NewFromCCache(cache, conf, client.DisablePAFXFAST(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Login is the login of one connection to the server.
type Login struct {
	Token []byte // for Negotiate (RFC 4559); it counts once

	key           types.EncryptionKey
	authenticator types.Authenticator
}

// Login begins a login. It counts only on a connection with these channel bindings, the MD5 of RFC 4121, 4.1.1.2;
// nil = on any. With mutual the server answers with a proof that it has the keys of the service; see Finish.
func (c *Client) Login(bindings []byte, mutual bool) (l *Login, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer caught(&err, "the KDC")
	if err := c.of.AffirmLogin(); err != nil {
		return nil, err
	}
	ticket, key, err := c.of.GetServiceTicket(c.service)
	if err != nil {
		return nil, err
	}
	l = &Login{key: key}
	asked := uint32(gssapi.ContextFlagConf | gssapi.ContextFlagInteg)
	if mutual {
		asked |= gssapi.ContextFlagMutual | gssapi.ContextFlagReplay | gssapi.ContextFlagSequence
	}
	token, err := spnego.NewKRB5TokenAPREQ(c.of, ticket, key, nil, nil)
	if err != nil {
		return nil, err
	}
	l.authenticator, err = types.NewAuthenticator(c.of.Credentials.Domain(), c.of.Credentials.CName())
	if err == nil {
		err = l.authenticator.GenerateSeqNumberAndSubKey(key.KeyType, len(key.KeyValue))
	}
	if err != nil {
		return nil, err
	}
	// The library leaves the bindings out of this checksum.
	sum := binary.LittleEndian.AppendUint32(nil, md5.Size)
	sum = append(sum, append(bytes.Clone(bindings), make([]byte, md5.Size-len(bindings))...)...)
	l.authenticator.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI,
		Checksum: binary.LittleEndian.AppendUint32(sum, asked)}
	if token.APReq, err = messages.NewAPReq(ticket, key, l.authenticator); err != nil {
		return nil, err
	}
	if mutual {
		types.SetFlag(&token.APReq.APOptions, flags.APOptionMutualRequired)
	}
	inner, err := token.Marshal()
	if err != nil {
		return nil, err
	}
	begin := spnego.SPNEGOToken{Init: true, NegTokenInit: spnego.NegTokenInit{
		MechTypes: []asn1.ObjectIdentifier{gssapi.OIDKRB5.OID()}, MechTokenBytes: inner}}
	l.Token, err = begin.Marshal()
	return l, err
}

// Finish checks the server's answer to a mutual login and returns the session that seals messages.
func (l *Login) Finish(answer []byte) (s *sealed.Session, err error) {
	defer caught(&err, "the machine")
	var t spnego.SPNEGOToken
	var inner spnego.KRB5Token
	if err := t.Unmarshal(answer); err != nil {
		return nil, err
	}
	if t.NegTokenResp.State() != spnego.NegStateAcceptCompleted || !t.Resp {
		return nil, errors.New("the machine does not accept the login")
	}
	if err := inner.Unmarshal(t.NegTokenResp.ResponseToken); err != nil {
		return nil, err
	}
	if !inner.IsAPRep() {
		return nil, errors.New("the machine does not prove that it has the keys of the service")
	}
	plain, err := crypto.DecryptEncPart(inner.APRep.EncPart, l.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return nil, fmt.Errorf("the machine does not have the keys of the service: %w", err)
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return nil, err
	}
	if part.CTime.Unix() != l.authenticator.CTime.Unix() || part.Cusec != l.authenticator.Cusec {
		return nil, errors.New("the machine answers another login")
	}
	agreed := sealed.Agreed{Key: part.Subkey, Acceptor: true, Client: uint32(l.authenticator.SeqNumber),
		Server: uint32(part.SequenceNumber)}
	if len(part.Subkey.KeyValue) == 0 {
		agreed.Key, agreed.Acceptor = l.authenticator.SubKey, false
	}
	return sealed.Kerberos(agreed, sealed.Client)
}

// Close forgets the user.
func (c *Client) Close() { c.of.Destroy() }

// caught makes an error of a panic: the parsers of the library trust what they read.
func caught(err *error, what string) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s does not give what Kerberos prescribes: %v", what, r)
	}
}
