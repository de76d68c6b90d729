// Package kerberos logs a user in to services over HTTP by Kerberos (RFC 4120, RFC 4559), with the realms and servers
// of the controller's krb5.conf.
package kerberos

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/spnego"
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

// Token is what logs a connection to the server in. It counts once.
func (c *Client) Token() (token []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer caught(&err, "the KDC")
	s := spnego.SPNEGOClient(c.of, c.service)
	if err := s.AcquireCred(); err != nil {
		return nil, err
	}
	t, err := s.InitSecContext()
	if err != nil {
		return nil, err
	}
	return t.Marshal()
}

// Close forgets the user.
func (c *Client) Close() { c.of.Destroy() }

// caught makes an error of a panic: the parsers of the library trust what they read.
func caught(err *error, what string) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s does not give what Kerberos prescribes: %v", what, r)
	}
}
