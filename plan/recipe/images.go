package recipe

import (
	"fmt"

	"nodejoin/steps/kinds"
)

// images adds the images that the runtime has before the kubelet starts, the pause image first: no pod starts without
// it. cri is where the runtime answers.
func (b *build) images(cri string) {
	p := b.in.Settings.Images
	if p == nil || b.in.Runtime.Kind != "containerd" { // a rule of the language reports others
		return
	}
	after := []string{"containerd_ready"}
	for i := range b.in.Runtime.Registries {
		after = append(after, fmt.Sprintf("registry_%d", i+1))
	}
	pause := b.pause()
	add := func(id, name string) {
		s := b.add(id, "image", "Image "+name, &kinds.Image{Address: cri, Image: name}, after...)
		s.Retries, s.Source = 2, p.Source // connections drop while HNS rebuilds the machine's network
		b.needs = append(b.needs, id)
	}
	add("image_pause", pause)
	for i, name := range p.Pull {
		if name != pause {
			add(fmt.Sprintf("image_%d", i+1), name)
		}
	}
}
