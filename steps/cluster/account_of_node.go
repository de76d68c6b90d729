package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodejoin/steps/kube"
)

// tokenLabel marks the Secrets that tokens are bound to, and the accounts of one Node alone.
const tokenLabel = "nodejoin.dev/binds-tokens" //nolint:gosec // a label

// accountFor is the account that is wanted on this API server: one of the Node alone where it cannot limit the shared
// one.
func (k *client) accountFor(ctx context.Context, w kube.ServiceAccount) (kube.ServiceAccount, error) {
	if !w.OwnNode || w.Node == "" {
		return w, nil
	}
	limits, err := k.limitsToNode(ctx)
	if err != nil {
		return w, err
	}
	if !limits {
		return w.OfNode(), nil
	}
	w.Node = ""
	return w, nil
}

// limitsToNode reports whether the objects of kube.OwnNode work on this API server: it knows the Node of a token, and
// has ValidatingAdmissionPolicy. Each cluster has the account that is asked about (kubernetes
// pkg/controller/serviceaccount/serviceaccounts_controller.go).
func (k *client) limitsToNode(ctx context.Context) (bool, error) {
	if binds, err := k.bindsToNodes(ctx, metav1.NamespaceSystem, "default"); err != nil || !binds {
		return false, err
	}
	_, err := k.resource(ctx, "/apis/admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// accountLabels are those of the objects of an account.
func accountLabels(w kube.ServiceAccount) map[string]string {
	if w.Node == "" {
		return ownership
	}
	return nodeLabels(w.Node)
}

// nodeLabels mark what ends with a Node: EndTokens finds it by them.
func nodeLabels(node string) map[string]string {
	labels := map[string]string{nodeLabel: labelValue(node), tokenLabel: "true"}
	maps.Copy(labels, ownership)
	return labels
}

// ownAccount is the account whose token a Node gets: its own, if it has one and needs it, else the one that is named.
func (k *client) ownAccount(ctx context.Context, want kube.TokenRequest) (string, error) {
	own := kube.AccountOf(want.Name, want.Node)
	_, err := k.core.ServiceAccounts(want.Namespace).Get(ctx, own, metav1.GetOptions{})
	if err = k.fail(ctx, "reading the ServiceAccount "+want.Namespace+"/"+own, err); errors.Is(err, fs.ErrNotExist) {
		return want.Name, nil
	} else if err != nil {
		return "", err
	}
	if limits, err := k.limitsToNode(ctx); err != nil || limits {
		return want.Name, err
	}
	return own, k.adopt(ctx, want.Node, want.UID)
}

// adopt makes the Node the owner of its accounts, so that the garbage collector deletes them with the Node. Secrets
// that tokens are bound to have it from the beginning.
func (k *client) adopt(ctx context.Context, node, uid string) error {
	list, err := k.accountsOf(ctx, node)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(uid)}}}})
	if err != nil {
		return err
	}
	for _, o := range list {
		if err := o.patch(ctx, patch); err != nil {
			return k.fail(ctx, "setting the owner of the "+o.what, err)
		}
	}
	return nil
}

// ending is an object that ends with a Node.
type ending struct {
	what   string
	delete func(context.Context) error
	patch  func(ctx context.Context, merge []byte) error
}

// ofNode lists what ends with a Node of that name, in all namespaces, in the order in which it is deleted: rights
// first.
func (k *client) ofNode(ctx context.Context, node string) ([]ending, error) {
	out, err := k.accountsOf(ctx, node)
	if err != nil {
		return nil, err
	}
	secrets, err := k.core.Secrets(metav1.NamespaceAll).List(ctx, endsWith(node))
	if err != nil {
		return nil, k.fail(ctx, "listing the Secrets that tokens of "+node+" are bound to", err)
	}
	for _, s := range secrets.Items {
		out = append(out, endingOf("Secret", k.core.Secrets(s.Namespace), s.ObjectMeta))
	}
	return out, nil
}

// endsWith selects what ends with a Node.
func endsWith(node string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: nodeLabel + "=" + labelValue(node) + "," + tokenLabel + "=true"}
}

// accountsOf lists the accounts of a Node with their rights.
func (k *client) accountsOf(ctx context.Context, node string) (out []ending, err error) {
	opts := endsWith(node)
	bindings, err := k.rbac.ClusterRoleBindings().List(ctx, opts)
	if err != nil {
		return nil, k.fail(ctx, "listing the ClusterRoleBindings of "+node, err)
	}
	for _, b := range bindings.Items {
		out = append(out, endingOf("ClusterRoleBinding", k.rbac.ClusterRoleBindings(), b.ObjectMeta))
	}
	roles, err := k.rbac.ClusterRoles().List(ctx, opts)
	if err != nil {
		return nil, k.fail(ctx, "listing the ClusterRoles of "+node, err)
	}
	for _, r := range roles.Items {
		out = append(out, endingOf("ClusterRole", k.rbac.ClusterRoles(), r.ObjectMeta))
	}
	accounts, err := k.core.ServiceAccounts(metav1.NamespaceAll).List(ctx, opts)
	if err != nil {
		return nil, k.fail(ctx, "listing the ServiceAccounts of "+node, err)
	}
	for _, a := range accounts.Items {
		out = append(out, endingOf("ServiceAccount", k.core.ServiceAccounts(a.Namespace), a.ObjectMeta))
	}
	return out, nil
}

func endingOf[T corev1.ServiceAccount | corev1.Secret | rbacv1.ClusterRole | rbacv1.ClusterRoleBinding, L any](
	kind string, all objects[T, L], have metav1.ObjectMeta) ending {
	return ending{what: fmt.Sprintf("%s %s", kind, strings.TrimPrefix(have.Namespace+"/"+have.Name, "/")),
		delete: func(ctx context.Context) error {
			err := all.Delete(ctx, have.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.UID))})
			if apierrors.IsNotFound(err) && !isForeign(err) {
				return nil
			}
			return err
		},
		patch: func(ctx context.Context, merge []byte) error {
			_, err := all.Patch(ctx, have.Name, types.MergePatchType, merge, metav1.PatchOptions{})
			return err
		}}
}
