package sandbox

import (
	"cmp"
	"context"
	"slices"

	"nodejoin/steps/kube"
)

// dnsServices are the services of a cluster that kubeadm created: the API and DNS, at the first and the tenth
// address of the default service network (kubeadm, cmd/kubeadm/app/constants/constants.go, GetDNSIP).
func dnsServices(ip string) []kube.Service {
	return []kube.Service{{Namespace: "default", Name: "kubernetes", ClusterIP: "10.96.0.1"},
		{Namespace: "kube-system", Name: "kube-dns", ClusterIP: or(ip, "10.96.0.10")}}
}

// Services lists the services.
func (k *Cluster) Services(ctx context.Context) ([]kube.Service, error) {
	var out []kube.Service
	err := k.ask(ctx, "list", "services", func(s *clusterState) error {
		for _, svc := range s.Services.all() {
			out = append(out, copied(svc))
		}
		slices.SortFunc(out, func(a, b kube.Service) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		return nil
	})
	return out, err
}

// SetServices replaces all services.
func (k *Cluster) SetServices(ctx context.Context, list []kube.Service) error {
	return k.change(ctx, func(s *clusterState) error {
		for name := range s.Services.all() {
			s.Services.remove(name)
		}
		for _, svc := range list {
			s.Services.set(svc.String(), copied(svc))
		}
		return nil
	})
}
