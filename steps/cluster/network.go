package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// LinuxNodes lists one page of the Nodes that run Linux.
func (k *client) LinuxNodes(ctx context.Context, most int) ([]kube.Node, error) {
	list, err := shared(ctx, &k.asks, fmt.Sprintf("%d Linux Nodes", most), func() (*corev1.NodeList, error) {
		return k.core.Nodes().List(ctx, metav1.ListOptions{Limit: int64(most),
			LabelSelector: corev1.LabelOSStable + "=linux"})
	})
	if err != nil {
		return nil, k.fail(ctx, "listing the Linux Nodes", err)
	}
	var out []kube.Node
	for i := range list.Items {
		out = append(out, k.nodeOf(&list.Items[i]))
	}
	slices.SortFunc(out, func(a, b kube.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// ConfigMap reads the data of a ConfigMap.
func (k *client) ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	m, err := shared(ctx, &k.asks, "ConfigMap "+namespace+"/"+name, func() (*corev1.ConfigMap, error) {
		return k.core.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		return nil, k.fail(ctx, "reading the ConfigMap "+namespace+"/"+name, err)
	}
	return m.Data, nil
}
