package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/plan/eval"
	"nodejoin/plan/source"
)

// adminSecrets are the private parts of the cluster's kubeconfig on the controller,
// which no node may have; none when it cannot be read.
func (c *compiler) adminSecrets() []string {
	if c.cluster == nil || c.cluster.Kubeconfig == "" {
		return nil
	}
	if c.secrets != nil {
		return *c.secrets
	}
	var out []string
	c.secrets = &out
	src, err := source.ReadFile(c.cluster.Kubeconfig)
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
func (c *compiler) adminCredentials(s *eval.Section, args map[string]any) {
	const how = "Whoever reads it there rules the cluster. Nodes get credentials of their own from nodejoin; a program gets those of a service account, with a step of kind \"service_account_token\"."
	for _, name := range slices.Sorted(maps.Keys(args)) {
		text, ok := args[name].(string)
		if !ok || text == "" {
			continue
		}
		if name == "file" && c.cluster != nil && text == c.cluster.Kubeconfig {
			s.Fail(name, "administrator's credentials on a node", "The argument %q is the cluster's kubeconfig, which must not leave the controller. %s", name, how)
			continue
		}
		for _, secret := range c.adminSecrets() {
			if strings.Contains(text, secret) {
				s.Fail(name, "administrator's credentials on a node", "The argument %q holds a key or token of the cluster's kubeconfig, which must not leave the controller. %s", name, how)
				break
			}
		}
	}
}

// jsonFile warns of a file that is named JSON and is none, such as one with comments.
func (c *compiler) jsonFile(s *eval.Section, args map[string]any) {
	path, _ := args["path"].(string)
	text, _ := args["content"].(string)
	if low := strings.ToLower(path); text == "" || !strings.HasSuffix(low, ".json") && !strings.HasSuffix(low, ".conflist") {
		return
	}
	parts := strings.Split(text, "\x00") // every second one is a reference
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "0"
	}
	if !json.Valid([]byte(strings.Join(parts, ""))) {
		c.Warn(s.At("content"), "invalid JSON", "The file %s is named JSON and its content is none, so what reads it would refuse it. JSON has no comments and no comma after the last element; jsonencode({...}) writes it.", path)
	}
}
