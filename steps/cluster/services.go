package cluster

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// Services lists those of all namespaces.
func (k *client) Services(ctx context.Context) ([]kube.Service, error) {
	list, err := shared(ctx, &k.asks, "services", func() ([]kube.Service, error) { return k.services(ctx) })
	return slices.Clone(list), err
}

func (k *client) services(ctx context.Context) ([]kube.Service, error) {
	var out []kube.Service
	o := metav1.ListOptions{Limit: listLimit}
	for {
		list, err := k.core.Services(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, k.fail(ctx, "listing the services", err)
		}
		for i := range list.Items {
			out = append(out, serviceOf(&list.Items[i]))
		}
		if o.Continue = list.Continue; o.Continue == "" {
			slices.SortFunc(out, func(a, b kube.Service) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
			return out, nil
		}
	}
}

func serviceOf(s *corev1.Service) kube.Service {
	out := kube.Service{Namespace: s.Namespace, Name: s.Name}
	if ip := s.Spec.ClusterIP; ip != corev1.ClusterIPNone {
		out.ClusterIP = ip
	}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			out.NodePorts = append(out.NodePorts, p.NodePort)
		}
	}
	return out
}
