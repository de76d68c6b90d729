package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// accountGap is what an account lacks.
type accountGap struct {
	namespace, account, role, binding bool
	rules                             []kube.Rule // not granted by the role
	have                              *rbacv1.ClusterRole
	ownNode                           []kube.Manifest // that are absent or differ
}

func (g accountGap) missing(w kube.ServiceAccount) []string {
	var out []string
	if g.namespace {
		out = append(out, "Namespace "+w.Namespace)
	}
	if g.account {
		out = append(out, "ServiceAccount "+w.Namespace+"/"+w.Name)
	}
	if g.role {
		out = append(out, "ClusterRole "+w.ClusterRole)
	}
	for _, r := range g.rules {
		if !g.role {
			out = append(out, "in ClusterRole "+w.ClusterRole+": "+ruleText(r))
		}
	}
	if g.binding {
		out = append(out, "ClusterRoleBinding "+w.Binding())
	}
	for _, m := range g.ownNode {
		out = append(out, m.String())
	}
	return out
}

func ruleText(r kube.Rule) string {
	text := fmt.Sprintf("%s %s", strings.Join(r.Verbs, ","), strings.Join(r.Resources, ","))
	if len(r.ResourceNames) > 0 {
		text += " of " + strings.Join(r.ResourceNames, ",")
	}
	return text
}

// ServiceAccount compares the account with what is wanted.
func (k *client) ServiceAccount(ctx context.Context, want kube.ServiceAccount) (kube.ServiceAccountState, error) {
	want, err := k.accountFor(ctx, want)
	if err != nil {
		return kube.ServiceAccountState{}, err
	}
	question, err := questionOf(want)
	if err != nil {
		return kube.ServiceAccountState{}, err
	}
	return shared(ctx, &k.asks, question, func() (kube.ServiceAccountState, error) {
		g, err := k.accountGap(ctx, want)
		if err != nil {
			return kube.ServiceAccountState{}, err
		}
		return kube.ServiceAccountState{Missing: g.missing(want)}, nil
	})
}

func (k *client) accountGap(ctx context.Context, w kube.ServiceAccount) (g accountGap, err error) {
	what := "reading the ServiceAccount " + w.Namespace + "/" + w.Name
	absent := func(err error) (bool, error) {
		err = k.fail(ctx, what, err)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	}
	_, err = k.core.ServiceAccounts(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
	if g.account, err = absent(err); err != nil {
		return g, err
	}
	if g.account {
		_, err = k.core.Namespaces().Get(ctx, w.Namespace, metav1.GetOptions{})
		if g.namespace, err = absent(err); err != nil {
			return g, err
		}
	}
	what = "reading the ClusterRole " + w.ClusterRole
	g.have, err = k.rbac.ClusterRoles().Get(ctx, w.ClusterRole, metav1.GetOptions{})
	if g.role, err = absent(err); err != nil {
		return g, err
	}
	if g.role {
		g.rules = w.Rules
	} else {
		g.rules = uncovered(g.have.Rules, w.Rules)
	}
	what = "reading the ClusterRoleBinding " + w.Binding()
	b, err := k.rbac.ClusterRoleBindings().Get(ctx, w.Binding(), metav1.GetOptions{})
	if g.binding, err = absent(err); err != nil {
		return g, err
	}
	if !g.binding {
		g.binding = !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == "ServiceAccount" && s.Namespace == w.Namespace && s.Name == w.Name
		})
	}
	g.ownNode, err = k.ownNodeGap(ctx, w)
	return g, err
}

// ownNodeGap returns the objects of kube.OwnNode that are absent or differ. Where the API server does not bind tokens
// to Nodes, none is wanted: the policy would refuse the tokens of all nodes.
func (k *client) ownNodeGap(ctx context.Context, w kube.ServiceAccount) (gap []kube.Manifest, err error) {
	if !w.OwnNode {
		return nil, nil
	}
	if binds, err := k.bindsToNodes(ctx, w.Namespace, w.Name); err != nil || !binds {
		return nil, err
	}
	for _, m := range kube.OwnNode(w.Namespace, w.Name) {
		have, err := k.Manifest(ctx, m)
		if err != nil {
			return nil, err
		}
		if !have.Exists || len(have.Differs) > 0 {
			gap = append(gap, m)
		}
	}
	return gap, nil
}

// EnsureServiceAccount creates what is missing. A ClusterRole that nodejoin did not create is never changed.
func (k *client) EnsureServiceAccount(ctx context.Context, w kube.ServiceAccount) error {
	w, err := k.accountFor(ctx, w)
	if err != nil {
		return err
	}
	g, err := k.accountGap(ctx, w)
	if err != nil {
		return err
	}
	create := metav1.CreateOptions{FieldManager: k.manager}
	made := func(what string, err error) error {
		if apierrors.IsAlreadyExists(err) {
			return nil // another run was faster; the check afterwards compares it
		}
		return k.fail(ctx, "creating the "+what, err)
	}
	if g.namespace {
		_, err := k.core.Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace, Labels: ownership}}, create)
		if err := made("Namespace "+w.Namespace, err); err != nil {
			return err
		}
	}
	if g.account {
		_, err := k.core.ServiceAccounts(w.Namespace).Create(ctx,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace,
				Labels: accountLabels(w)}}, create)
		if err := made("ServiceAccount "+w.Namespace+"/"+w.Name, err); err != nil {
			return err
		}
	}
	if err := k.ensureOwnNode(ctx, w, g); err != nil { // before the account has rights
		return err
	}
	if err := k.ensureRole(ctx, w, g); err != nil {
		return err
	}
	if !g.binding {
		return nil
	}
	subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: w.Namespace, Name: w.Name}
	b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: w.Binding(), Labels: accountLabels(w)},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.ClusterRole},
		Subjects: []rbacv1.Subject{subject}}
	what := "ClusterRoleBinding " + b.Name
	_, err = k.rbac.ClusterRoleBindings().Create(ctx, b, create)
	if apierrors.IsAlreadyExists(err) {
		// The binding exists without its subject; its name is nodejoin's own.
		_, err = k.rbac.ClusterRoleBindings().Update(ctx, b, metav1.UpdateOptions{FieldManager: k.manager})
	}
	return k.fail(ctx, "creating the "+what, err)
}

// ensureOwnNode applies the objects of kube.OwnNode that are absent or differ. Whether the API server binds the tokens
// of a new account is known only now.
func (k *client) ensureOwnNode(ctx context.Context, w kube.ServiceAccount, g accountGap) (err error) {
	if g.account {
		if g.ownNode, err = k.ownNodeGap(ctx, w); err != nil {
			return err
		}
	}
	for _, m := range g.ownNode {
		if err := k.ApplyManifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (k *client) ensureRole(ctx context.Context, w kube.ServiceAccount, g accountGap) error {
	what := "ClusterRole " + w.ClusterRole
	switch {
	case g.role && len(w.Rules) == 0:
		return fmt.Errorf("the %s to bind does not exist", what)
	case g.role:
		_, err := k.rbac.ClusterRoles().Create(ctx,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.ClusterRole, Labels: accountLabels(w)},
				Rules: policyRules(w.Rules)},
			metav1.CreateOptions{FieldManager: k.manager})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return k.fail(ctx, "creating the "+what, err)
	case len(g.rules) == 0:
		return nil
	}
	for key, v := range ownership {
		if g.have.Labels[key] != v {
			return fmt.Errorf("the %s does not allow %s, and nodejoin does not own it; use another cluster_role", what,
				ruleText(g.rules[0]))
		}
	}
	role := g.have.DeepCopy() // with its resourceVersion: a concurrent write is a conflict
	role.Rules = append(role.Rules, policyRules(g.rules)...)
	_, err := k.rbac.ClusterRoles().Update(ctx, role, metav1.UpdateOptions{FieldManager: k.manager})
	return k.fail(ctx, "changing the "+what, err)
}

func policyRules(rules []kube.Rule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		out = append(out, rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, Verbs: r.Verbs,
			ResourceNames: r.ResourceNames})
	}
	return out
}

// uncovered returns the wanted rules that have does not grant in full.
func uncovered(have []rbacv1.PolicyRule, want []kube.Rule) []kube.Rule {
	holds := func(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }
	// covers: rules for single objects grant those alone.
	covers := func(have, want []string) bool {
		return len(have) == 0 || len(want) > 0 && !slices.ContainsFunc(want, func(s string) bool {
			return !slices.Contains(have, s)
		})
	}
	var out []kube.Rule
	for _, w := range want {
		full := true
		for _, g := range w.APIGroups {
			for _, r := range w.Resources {
				for _, v := range w.Verbs {
					full = full && slices.ContainsFunc(have, func(h rbacv1.PolicyRule) bool {
						return covers(h.ResourceNames, w.ResourceNames) && holds(h.APIGroups, g) && holds(h.Resources, r) &&
							holds(h.Verbs, v)
					})
				}
			}
		}
		if !full {
			out = append(out, w)
		}
	}
	return out
}
