package sandbox

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/kube"
)

// ServiceAccount returns what an account still lacks.
func (k *Cluster) ServiceAccount(ctx context.Context, want kube.ServiceAccount) (kube.ServiceAccountState, error) {
	var out kube.ServiceAccountState
	subject := want.Namespace + "/" + want.Name
	err := k.ask(ctx, "read service account", subject, func(s *clusterState) error {
		have, ok := s.Accounts.get(subject)
		if !ok {
			out.Missing = append(out.Missing, "service account "+subject)
		}
		if want.OwnNode && !have.OwnNode {
			out.Missing = append(out.Missing, "limits of "+subject+" to the Node of its token")
		}
		if want.ClusterRole == "" {
			return nil
		}
		rules, ok := s.Roles.get(want.ClusterRole)
		switch {
		case !ok:
			out.Missing = append(out.Missing, "cluster role "+want.ClusterRole)
		case len(want.Rules) > 0 && !equalRules(rules, want.Rules):
			out.Missing = append(out.Missing, "rules of cluster role "+want.ClusterRole)
		}
		if !slices.Contains(have.Roles, want.ClusterRole) {
			out.Missing = append(out.Missing, "binding of "+subject+" to "+want.ClusterRole)
		}
		return nil
	})
	return out, err
}

func equalRules(a, b []kube.Rule) bool {
	return slices.EqualFunc(a, b, func(x, y kube.Rule) bool {
		return slices.Equal(x.APIGroups, y.APIGroups) && slices.Equal(x.Resources, y.Resources) &&
			slices.Equal(x.Verbs, y.Verbs)
	})
}

// EnsureServiceAccount adds what an account lacks. A ClusterRole that has no rules must exist.
func (k *Cluster) EnsureServiceAccount(ctx context.Context, want kube.ServiceAccount) error {
	subject := want.Namespace + "/" + want.Name
	return k.tell(ctx, "make service account", subject, func(s *clusterState) error {
		have, _ := s.Accounts.edit(subject)
		have.OwnNode = have.OwnNode || want.OwnNode
		if want.ClusterRole == "" {
			s.Accounts.set(subject, have)
			return nil
		}
		if len(want.Rules) > 0 {
			s.Roles.set(want.ClusterRole, copied(want.Rules))
		} else if _, ok := s.Roles.get(want.ClusterRole); !ok {
			return fmt.Errorf("cluster role %s: %w", want.ClusterRole, fs.ErrNotExist)
		}
		if !slices.Contains(have.Roles, want.ClusterRole) {
			have.Roles = append(have.Roles, want.ClusterRole)
		}
		s.Accounts.set(subject, have)
		return nil
	})
}

// claims are the claims in the token of a service account.
type claims struct {
	Issuer     string `json:"iss"`
	Subject    string `json:"sub"`
	IssuedAt   int64  `json:"iat"` // seconds since 1970
	Expires    int64  `json:"exp"`
	Kubernetes struct {
		Node *claimed `json:"node,omitempty"`
	} `json:"kubernetes.io,omitzero"`
}

type claimed struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

const jwtHeader = `{"alg":"HS256","typ":"JWT"}`

// ServiceAccountToken mints a signed JSON web token (RFC 7519). Like the API server, it refuses a lifetime of
// less than ten minutes, and binds to a Node that exists.
func (k *Cluster) ServiceAccountToken(ctx context.Context, want kube.TokenRequest) (string, time.Time, error) {
	var token string
	now := time.Now()
	life := want.TTL
	if want.Node != "" {
		life = cmp.Or(want.NodeTTL, want.TTL)
	}
	expires := now.Add(life).UTC().Truncate(time.Second)
	subject := want.Namespace + "/" + want.Name
	err := k.tell(ctx, "mint token of service account", subject, func(s *clusterState) error {
		if _, ok := s.Accounts.get(subject); !ok {
			return fs.ErrNotExist
		}
		if life < 10*time.Minute {
			return fmt.Errorf("%w: a token lives for at least 10 minutes, not %s", fs.ErrInvalid, life)
		}
		if id, bound := strings.CutPrefix(want.Secret, "bootstrap-token-"); want.Secret != "" {
			if _, ok := s.Tokens.get(id); !bound || !ok {
				return fmt.Errorf("secret %s/%s: %w", want.Namespace, want.Secret, fs.ErrNotExist)
			}
		}
		c := claims{Issuer: s.Server, Subject: "system:serviceaccount:" + want.Namespace + ":" + want.Name,
			IssuedAt: now.Unix(), Expires: expires.Unix()}
		if want.Node != "" {
			node, ok := s.Nodes.get(want.Node)
			switch {
			case !ok:
				return fmt.Errorf("node %s: %w", want.Node, fs.ErrNotExist)
			case want.UID != "" && want.UID != node.UID:
				return kube.ErrChanged
			}
			c.Kubernetes.Node = &claimed{Name: node.Name, UID: node.UID}
		}
		body, err := json.Marshal(c)
		if err != nil {
			return err
		}
		signed := encode([]byte(jwtHeader)) + "." + encode(body)
		token = signed + "." + encode(s.sign(signed))
		return nil
	})
	if err != nil {
		return "", time.Time{}, err
	}
	return token, expires, nil
}

// EndTokens has nothing to do: tokens are bound to the Node itself.
func (k *Cluster) EndTokens(context.Context, string) error { return nil }

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (s *clusterState) sign(text string) []byte {
	mac := hmac.New(sha256.New, s.TokenKey)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// authenticate returns the user of a bearer token, which is that of a service account or a bootstrap token.
// Anything else is kube.ErrUnauthorized.
func (s *clusterState) authenticate(token string, now time.Time) (user string, err error) {
	if id, secret, ok := strings.Cut(token, "."); ok {
		if t, known := s.Tokens.get(id); known {
			if t.Secret == "" || t.Secret != secret || !now.Before(t.Expires) {
				return "", fmt.Errorf("%w: bootstrap token %s is wrong or has ended", kube.ErrUnauthorized, id)
			}
			return "system:bootstrap:" + id, nil
		}
	}
	cut := strings.LastIndex(token, ".")
	if cut < 0 {
		return "", kube.ErrUnauthorized
	}
	mac, err := base64.RawURLEncoding.DecodeString(token[cut+1:])
	if err != nil || !hmac.Equal(mac, s.sign(token[:cut])) {
		return "", kube.ErrUnauthorized
	}
	_, body, _ := strings.Cut(token[:cut], ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return "", kube.ErrUnauthorized
	}
	var c claims
	if err := json.Unmarshal(raw, &c); err != nil || now.Unix() >= c.Expires {
		return "", kube.ErrUnauthorized
	}
	if bound := c.Kubernetes.Node; bound != nil {
		if n, ok := s.Nodes.get(bound.Name); !ok || n.UID != bound.UID {
			return "", fmt.Errorf("%w: the Node %s that the token is bound to is gone", kube.ErrUnauthorized, bound.Name)
		}
	}
	return c.Subject, nil
}
