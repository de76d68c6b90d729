package sandbox

import (
	"context"

	"sigs.k8s.io/yaml"
)

// Kubeconfig creates the kubeconfig of a node's kubelet, valid for a year, like `kubeadm kubeconfig user
// --client-name system:node:NAME --org system:nodes` on a control plane. server is the API server's URL as the
// node reaches it. The result contains a private key.
func (k *Cluster) Kubeconfig(ctx context.Context, node, server string) ([]byte, error) {
	var ca, user authority
	err := k.view(ctx, func(s *clusterState) (err error) {
		ca = s.CA
		user.Cert, user.Key, err = s.CA.nodeCertificate(node)
		return err
	})
	if err != nil {
		return nil, err
	}
	type list = []map[string]any
	return yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "default",
		"clusters": list{{"name": "default",
			"cluster": map[string]any{"server": server, "certificate-authority-data": []byte(ca.Cert)}}},
		"users": list{{"name": node,
			"user": map[string]any{"client-certificate-data": []byte(user.Cert), "client-key-data": []byte(user.Key)}}},
		"contexts": list{{"name": "default", "context": map[string]any{"cluster": "default", "user": node}}}})
}
