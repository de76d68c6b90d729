package lock

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/steps"
)

// Module is a module from elsewhere of which the plan gives no digest.
type Module struct {
	Address string    // https://HOST/PATH.tar.gz or oci://REGISTRY/REPOSITORY:TAG
	SHA256  string    // lower-case hex: of the archive, or of the artifact's manifest
	Range   hcl.Range // in the file that it was read from
}

// moduleBlock is a module as HCL.
type moduleBlock struct {
	Address string    `hcl:"address,label"`
	SHA256  string    `hcl:"sha256"`
	At      hcl.Range `hcl:",def_range"`
}

// wrong says what is wrong with a module; "" = nothing.
func (m Module) wrong() string {
	if steps.DigestAlgorithm(m.SHA256) != "sha256" {
		return "The sha256 of this module is not 64 hex digits in lower case"
	}
	return ""
}

func (m Module) format(out *hclwrite.Body) {
	out.AppendNewline()
	out.AppendNewBlock("module", []string{m.Address}).Body().SetAttributeValue("sha256", cty.StringVal(m.SHA256))
}
