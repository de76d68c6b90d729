package plan

import (
	"encoding/json"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// ownKinds are the kinds that owned knows.
var ownKinds = map[string]bool{"file": true, "binary": true, "kubeconfig": true, "directory": true,
	"service": true, "registry": true, "env": true, "firewall_rule": true, "dynamic_ports": true}

// identityArgs are the arguments that say what a step of one of ownKinds makes.
type identityArgs struct{ Path, Name, Key, File, Protocol string }

// owned is what a step makes, in words and as a key that is equal for equal
// things; "" when it makes nothing that another step could make too.
func owned(os, kind string, a identityArgs) (key, words string) {
	switch kind {
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
	case "dynamic_ports":
		return "dynamic_ports " + a.Protocol, "the dynamic ports of " + a.Protocol
	}
	return "", ""
}

// ownedBySpec is owned for a step of a recipe.
func ownedBySpec(os string, s steps.Spec) (key, words string) {
	var a identityArgs
	if !ownKinds[s.Kind] || json.Unmarshal(s.Args, &a) != nil {
		return "", ""
	}
	return owned(os, s.Kind, a)
}

// ownedByArgs is owned for a step of a step block.
func ownedByArgs(os, kind string, args map[string]any) (key, words string) {
	text := func(name string) string { s, _ := args[name].(string); return s }
	return owned(os, kind, identityArgs{Path: text("path"), Name: text("name"), Key: text("key"), File: text("file"), Protocol: text("protocol")})
}

// conflicts reports steps of the plan that make what another step makes. A recipe
// does not contradict itself.
func (x *expansion) conflicts() {
	own := map[string]string{}
	for _, s := range x.specs[x.recipe:] {
		o := x.origins[s.ID]
		if o.key == "" {
			continue
		}
		before, again := own[o.key]
		if !again {
			before, again = x.shape.things[o.key]
		}
		if again {
			x.c.FailOn(x.m.Name, o.Block.DefRange, "two steps for one thing", "The steps %q and %q both make %s on node %q, so each would undo the other. Remove one of them.", before, s.ID, o.words, x.m.Name)
			continue
		}
		own[o.key] = s.ID
	}
}
