package sandbox

import (
	"context"
	"io/fs"
	"strings"

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

// kubeconfig is the part of a kubeconfig that the simulated programs read and write (kubernetes.io, "kubeconfig
// (v1)").
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CAFile string `json:"certificate-authority,omitempty"`
		CA     []byte `json:"certificate-authority-data,omitempty"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User user   `json:"user"`
}

type user struct {
	Token string `json:"token,omitempty"`
	File  string `json:"tokenFile,omitempty"`
	Cert  []byte `json:"client-certificate-data,omitempty"`
	Key   []byte `json:"client-key-data,omitempty"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// credential is the content of the current context of a kubeconfig.
type credential struct {
	server, ca string // ca in PEM
	user       user
}

// credential reads a kubeconfig of the machine. A missing file is fs.ErrNotExist; with an invalid one the
// program exits.
func (h *Host) credential(path string) (credential, error) {
	if path == "" {
		return credential{}, fs.ErrNotExist
	}
	raw, err := h.read(path)
	if err != nil {
		return credential{}, absent(err)
	}
	var k kubeconfig
	if err := yaml.Unmarshal(raw, &k); err != nil {
		return credential{}, exit("%s: %v", path, err)
	}
	for _, c := range k.Contexts {
		if c.Name != k.CurrentContext {
			continue
		}
		var out credential
		if out.server, out.ca, err = h.clusterOf(k, c.Context.Cluster); err == nil {
			out.user, err = h.userOf(k, c.Context.User)
		}
		switch {
		case err != nil:
			return credential{}, exit("%s: %v", path, err)
		case out.server == "":
			return credential{}, exit("%s: no server", path)
		}
		return out, nil
	}
	return credential{}, exit("%s: no context %q", path, k.CurrentContext)
}

// clusterOf is the server of a kubeconfig's cluster and its CA in PEM.
func (h *Host) clusterOf(k kubeconfig, name string) (server, ca string, err error) {
	for _, cl := range k.Clusters {
		if cl.Name != name {
			continue
		}
		server, ca = cl.Cluster.Server, string(cl.Cluster.CA)
		if cl.Cluster.CAFile != "" && ca == "" {
			pem, err := h.read(cl.Cluster.CAFile)
			if err != nil {
				return "", "", err
			}
			ca = string(pem)
		}
	}
	return server, ca, nil
}

// userOf is a user of a kubeconfig, with the token of its file.
func (h *Host) userOf(k kubeconfig, name string) (out user, err error) {
	for _, u := range k.Users {
		if u.Name != name {
			continue
		}
		out = u.User
		if u.User.File != "" {
			token, err := h.read(u.User.File)
			if err != nil {
				return user{}, err
			}
			out.Token = strings.TrimSpace(string(token))
		}
	}
	return out, nil
}
