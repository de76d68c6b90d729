package rule

import (
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
)

// adminSecrets are the private parts of the cluster's kubeconfig on the controller,
// which no node may have; none when it cannot be read.
func adminSecrets(p *block.Plan) []string {
	if p.Cluster == nil || p.Cluster.Kubeconfig == "" {
		return nil
	}
	if p.Secrets != nil {
		return *p.Secrets
	}
	var out []string
	p.Secrets = &out
	src, err := p.Files.ReadOwn(p.Cluster.Kubeconfig)
	if err != nil {
		return nil // the run will say so
	}
	var file struct {
		Users []struct {
			User struct {
				Key      string `json:"client-key-data"`
				Token    string `json:"token"`
				Password string `json:"password"`
			} `json:"user"`
		} `json:"users"`
	}
	if yaml.Unmarshal(src, &file) != nil {
		return nil
	}
	for _, u := range file.Users {
		for _, s := range []string{u.User.Key, u.User.Token, u.User.Password} {
			if len(s) >= 8 { // shorter ones may be part of anything
				out = append(out, s)
			}
		}
	}
	return out
}

// adminCredentials reports arguments of a step that would put the administrator's
// credentials onto a node.
func adminCredentials(p *block.Plan, s *eval.Section, args map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		text, ok := args[name].(string)
		if !ok || text == "" {
			continue
		}
		if name == "file" && p.Cluster != nil && text == p.Cluster.Kubeconfig {
			s.Fail(name, "administrator's credentials on a node",
				"The argument %q is the cluster's kubeconfig, which must not leave the controller. %s", name, ownCredentials)
			continue
		}
		for _, secret := range adminSecrets(p) {
			if strings.Contains(text, secret) {
				s.Fail(name, "administrator's credentials on a node",
					"The argument %q holds a key or token of the cluster's kubeconfig, which must not leave the controller. %s", name,
					ownCredentials)
				break
			}
		}
	}
}

// fileCredentials reports a file block that would put the administrator's credentials onto a machine.
func fileCredentials(p *block.Plan, m *block.Machine) {
	for _, key := range slices.Sorted(maps.Keys(m.Said)) {
		content, given := m.Said[key].Args["content"]
		if !strings.HasPrefix(key, "file ") || !given || content.Value.IsNull() || !content.Value.IsKnown() {
			continue
		}
		text := content.Value.AsString()
		if slices.ContainsFunc(adminSecrets(p), func(secret string) bool { return strings.Contains(text, secret) }) {
			p.Fail(content.At, "administrator's credentials on a node",
				"The argument \"content\" holds a key or token of the cluster's kubeconfig, which must not leave the "+
					"controller. %s",
				ownCredentials)
			m.OK = false
		}
	}
}

// ownCredentials says what to do instead of giving a node the administrator's credentials.
const ownCredentials = "Whoever reads it there controls the cluster. Nodes get credentials of their own from " +
	"nodejoin; a program gets those of a service account, with a step of kind \"service_account_token\"."
