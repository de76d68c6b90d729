package plan

import (
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/recipe"
)

// joinSpecs are the ways in which a kubelet gets its first credentials.
var joinSpecs = map[string]*blockSpec{
	"bootstrap_token": {name: "join", doc: "a token that is minted when it is needed and revoked after", attrs: []attrSpec{
		{name: "ttl", typ: cty.String, doc: "life of the bootstrap token, default 15m"},
	}},
	"kubeconfig": {name: "join", doc: "a kubeconfig that is put on the nodes for their kubelets", attrs: []attrSpec{
		{name: "path", typ: cty.String, required: true, doc: "kubeconfig on the controller, or a folder that holds one for each node, NAME.conf"},
	}},
}

const defaultTokenTTL = 15 * time.Minute

// joinBlock reads the join block of the cluster; without one it is a bootstrap token.
func (c *compiler) joinBlock(s *section, k *cluster) {
	in := &k.base
	in.Join = recipe.Join{Kind: "bootstrap_token", TTL: defaultTokenTTL}
	for _, b := range s.blocks.OfType("join") {
		spec := c.kind(rootBlock("cluster").child("join"), b)
		if spec == nil {
			continue
		}
		js := c.section(spec, b, c.ctx)
		in.Join = recipe.Join{Kind: b.Labels[0]}
		switch in.Join.Kind {
		case "bootstrap_token":
			in.Join.TTL = js.duration("ttl", time.Minute, 24*time.Hour, defaultTokenTTL)
		case "kubeconfig":
			k.joinFile = c.givenKubeconfig(js)
		}
	}
}
