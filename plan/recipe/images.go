package recipe

import (
	"fmt"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// images adds the images that the runtime has before the kubelet starts, the pause image first: no pod starts without
// it. cri is where the runtime answers, and ctr the program that imports images.
func (b *build) images(cri, ctr string) {
	p := b.in.Settings.Images
	if p == nil && len(b.in.Bundled) == 0 || b.in.Runtime.Kind != "containerd" { // a rule of the language reports others
		return
	}
	after := []string{"containerd_ready"}
	for i := range b.in.Runtime.Registries {
		after = append(after, fmt.Sprintf("registry_%d", i+1))
	}
	pause, source := b.pause(), b.in.Source
	names := []string{pause}
	if p != nil {
		names, source = append(names, p.Pull...), p.Source
	}
	archives := map[string]steps.Source{}
	for _, i := range b.in.Bundled {
		names, archives[i.Name] = append(names, i.Name), i.Archive
	}
	seen := map[string]bool{}
	for i, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		id, image := fmt.Sprintf("image_%d", i), &kinds.Image{Address: cri, Image: name}
		if i == 0 {
			id = "image_pause"
		}
		if src := archives[name]; src.File != "" {
			image.File, image.SHA256, image.Program = src.File, src.SHA256, ctr
		}
		s := b.add(id, "image", "Image "+name, image, after...)
		s.Retries, s.Source = 2, source // connections drop while HNS rebuilds the machine's network
		b.needs = append(b.needs, id)
	}
}
