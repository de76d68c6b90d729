package lock

import (
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Image is one container image for the nodes of one system.
type Image struct {
	Name     string    // as the plan names it: registry.k8s.io/pause:3.10.2
	Platform string    // linux/amd64, or with the build windows(10.0.20348)/amd64
	Index    string    // digest that the name stands for in its registry; "" = Digest, as it is for one platform only
	Digest   string    // of the platform's manifest, sha256:...
	Size     int64     // bytes of its manifest, configuration and layers, as they are transferred
	Range    hcl.Range // in the file that it was read from
}

// Same reports whether two images say the same, wherever they stand.
func (i Image) Same(o Image) bool {
	i.Range, o.Range = hcl.Range{}, hcl.Range{}
	return i == o
}

// imageBlock is an image as HCL.
type imageBlock struct {
	Name     string    `hcl:"name,label"`
	Platform string    `hcl:"platform,label"`
	Index    string    `hcl:"index,optional"`
	Digest   string    `hcl:"digest"`
	Size     int64     `hcl:"size"`
	At       hcl.Range `hcl:",def_range"`
}

var imageDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// wrong says what is wrong with an image; "" = nothing.
func (i Image) wrong() string {
	switch {
	case !imageDigest.MatchString(i.Digest):
		return "The digest of this image is not \"sha256:\" and 64 hex digits in lower case"
	case i.Index != "" && !imageDigest.MatchString(i.Index):
		return "The index of this image is not \"sha256:\" and 64 hex digits in lower case"
	case i.Size <= 0:
		return "The size of this image is not a number of bytes"
	}
	return ""
}

func (i Image) format(out *hclwrite.Body) {
	out.AppendNewline()
	b := out.AppendNewBlock("image", []string{i.Name, i.Platform}).Body()
	if i.Index != "" {
		b.SetAttributeValue("index", cty.StringVal(i.Index))
	}
	b.SetAttributeValue("digest", cty.StringVal(i.Digest))
	b.SetAttributeValue("size", cty.NumberIntVal(i.Size))
}
