package block

import (
	"regexp"

	"nodejoin/plan/eval"
)

// imagesSpec are images that nodes have before they take pods.
var imagesSpec = &eval.Spec{Name: "images", One: true, Doc: "images that containerd pulls before the kubelet " +
	"starts, always with the pause image: the node takes pods once it has them. An image that is there is not pulled " +
	"again",
	Attrs: []eval.Attr{
		{Name: "pull", Typ: eval.Strings, Doc: "their names, as pods give them, with a tag or a digest; pulled in this " +
			"order, with the mirrors and credentials of the registry blocks"},
	}}

// imageName is an image as pods name it, with a tag or a digest (distribution reference/regexp.go).
var imageName = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?` +
	`[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*` +
	`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$`)

func (j *settingJudge) images() {
	seen := map[string]bool{}
	for i, name := range j.Strs("pull") {
		switch {
		case !imageName.MatchString(name):
			j.FailAt(j.AtIndex("pull", i), "invalid image", "%q is not the name of an image with a tag or a digest: "+
				"registry.example/team/app:1.2, or registry.example/team/app@sha256:...", name)
		case seen[name]:
			j.FailAt(j.AtIndex("pull", i), "image given twice", "%q is in the list already. Remove one of them.", name)
		}
		seen[name] = true
	}
}
