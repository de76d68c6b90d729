package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

const firstBoot = "nodejoin-first-boot"

// FirstBoot is the account with which a machine joins by itself when it first boots, without its rules. It is beside
// the bootstrap token that its token is bound to.
func FirstBoot(node string) ServiceAccount {
	return ServiceAccount{Namespace: "kube-system", Name: firstBoot + "." + node,
		ClusterRole: "nodejoin:first-boot:" + node, Node: node}
}

// FirstBootLimits are the objects that let the accounts of all first boots request only tokens that are bound to their
// own Node, of whatever account. A role can name accounts, but not what their tokens are bound to.
func FirstBootLimits() []Manifest {
	prefix := "system:serviceaccount:kube-system:" + firstBoot + "."
	return policy(firstBoot, map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{
			requests("", []any{"CREATE"}, []any{"serviceaccounts/token"})}},
		"matchConditions": []any{named("account", `request.userInfo.username.startsWith("`+prefix+`")`)},
		"validations": []any{
			forbids("a first boot requests only tokens that are bound to its own Node",
				`object.spec.?boundObjectRef.?kind.orValue("") == "Node" && `+
					`request.userInfo.username == "`+prefix+`" + object.spec.boundObjectRef.?name.orValue("")`),
		}})
}

// FirstBootLimited reports whether FirstBootLimits are in force for the account of a first boot, and its rights too.
// api is opened with a token of that account, which may request tokens of the account in of. It requests one that is
// bound to a Secret that does not exist, and one for its own Node with a wrong UID: neither is minted, and only the
// first is to be forbidden.
func FirstBootLimited(ctx context.Context, api API, of TokenRequest) (bool, error) {
	request := func(to TokenRequest) error {
		to.Namespace, to.Name, to.TTL = of.Namespace, of.Name, time.Hour
		_, _, err := api.ServiceAccountToken(ctx, to)
		if err == nil {
			err = fmt.Errorf("the API server mints a token of %s/%s for what does not exist", of.Namespace, of.Name)
		}
		return err
	}
	passes := func(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrChanged) }
	if err := request(TokenRequest{Secret: "nodejoin.invalid"}); passes(err) {
		return false, nil
	} else if !errors.Is(err, ErrForbidden) {
		return false, err
	}
	err := request(TokenRequest{Node: of.Node, UID: "none"})
	if passes(err) || errors.Is(err, ErrForbidden) {
		return passes(err), nil
	}
	return false, err
}
