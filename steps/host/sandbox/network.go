package sandbox

import (
	"context"
	"io/fs"
	"maps"

	"nodejoin/steps/kube"
)

// LinuxNodes lists Nodes that run Linux.
func (k *Cluster) LinuxNodes(ctx context.Context, most int) ([]kube.Node, error) {
	var out []kube.Node
	err := k.ask(ctx, "list", "Linux nodes", func(s *clusterState) error {
		for _, n := range s.Nodes.all() {
			if n.Labels["kubernetes.io/os"] == "linux" && len(out) < most {
				out = append(out, copied(n))
			}
		}
		return nil
	})
	return out, err
}

// ConfigMap reads the data of a ConfigMap.
func (k *Cluster) ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	var out map[string]string
	err := k.ask(ctx, "read configmap", namespace+"/"+name, func(s *clusterState) error {
		data, ok := s.ConfigMaps.get(namespace + "/" + name)
		applied, isObject := s.Objects.get(
			objectKey(kube.Manifest{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}))
		if !ok && !isObject {
			return fs.ErrNotExist
		}
		out = maps.Clone(data)
		if isObject {
			if out == nil {
				out = map[string]string{}
			}
			fields, _ := applied.Fields["data"].(map[string]any)
			for key, v := range fields {
				out[key], _ = v.(string)
			}
		}
		return nil
	})
	return out, err
}

// PutConfigMap creates or replaces a ConfigMap, as an administrator would.
func (k *Cluster) PutConfigMap(ctx context.Context, namespace, name string, data map[string]string) error {
	return k.tell(ctx, "write configmap", namespace+"/"+name, func(s *clusterState) error {
		kept := map[string]string{} // not nil, which would remove the entry
		maps.Copy(kept, data)
		s.ConfigMaps.set(namespace+"/"+name, kept)
		return nil
	})
}

// PutNode creates or replaces a Node object that has no sandbox machine.
func (k *Cluster) PutNode(ctx context.Context, n kube.Node) error {
	return k.tell(ctx, "write node", n.Name, func(s *clusterState) error {
		s.Nodes.set(n.Name, copied(n))
		return nil
	})
}
