package plan

import (
	"encoding/json"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// ownKinds are the kinds that owned knows.
var ownKinds = map[string]bool{"file": true, "binary": true, "kubeconfig": true, "directory": true,
	"service": true, "registry": true, "env": true, "firewall_rule": true}

// owned is what a step makes, in words and as a key that is equal for equal
// things; "" when it makes nothing that another step could make too.
func owned(os string, s steps.Spec) (key, words string) {
	if !ownKinds[s.Kind] {
		return "", ""
	}
	var a struct{ Path, Name, Key, File string }
	if json.Unmarshal(s.Args, &a) != nil {
		return "", ""
	}
	switch s.Kind {
	case "file", "binary", "kubeconfig":
		return "path " + host.PathKey(os, a.Path), "the file " + a.Path
	case "directory":
		return "path " + host.PathKey(os, a.Path), "the folder " + a.Path
	case "service":
		return "service " + strings.ToLower(a.Name), "the service " + a.Name
	case "registry":
		return "registry " + strings.ToLower(a.Key+`\`+a.Name), "the registry value " + a.Key + `\` + a.Name
	case "env":
		name := a.Name
		if os == "windows" {
			name = strings.ToLower(name)
		}
		if os != "windows" && a.File == "" {
			a.File = "/etc/environment" // the kind's default
		}
		return "env " + name + " " + a.File, "the variable " + a.Name
	case "firewall_rule":
		return "firewall " + strings.ToLower(a.Name), "the firewall rule " + a.Name
	}
	return "", ""
}

// thing is what a step makes, by key and in words.
type thing struct{ key, words string }

// maxOwnedArgs bounds the arguments (bytes) for which ownedCached keeps what it
// found: those of most steps of a recipe are short and equal on all nodes.
const maxOwnedArgs = 512

func (c *compiler) ownedCached(os string, s steps.Spec) (key, words string) {
	if len(s.Args) > maxOwnedArgs {
		return owned(os, s)
	}
	by := os + " " + s.Kind + " " + string(s.Args)
	t, ok := c.things[by]
	if !ok {
		t.key, t.words = owned(os, s)
		c.things[by] = t
	}
	return t.key, t.words
}

// conflicts reports steps of the plan that make what another step makes.
func (c *compiler) conflicts(m *machine, own, recipe []steps.Spec, at func(id string) hcl.Range) {
	if len(own) == 0 {
		return // a recipe does not contradict itself
	}
	first := map[string]string{}
	for _, s := range recipe {
		if key, _ := c.ownedCached(m.OS, s); key != "" {
			first[key] = s.ID
		}
	}
	for _, s := range own {
		key, words := c.ownedCached(m.OS, s)
		if key == "" {
			continue
		}
		if before, ok := first[key]; ok {
			c.diags.failOn(m.Name, at(s.ID), "two steps for one thing", "The steps %q and %q both make %s on node %q, so each would undo the other. Remove one of them.", before, s.ID, words, m.Name)
			continue
		}
		first[key] = s.ID
	}
}
