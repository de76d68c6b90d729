package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"nodejoin/plan/block"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// findImages notes the images of a plan: those of the pods' sandboxes, and those of its manifests.
func (c *compiler) findImages(of *Compiled) {
	if c.List.HasErrors() || !c.opt.Locking && (c.lock == nil || len(c.lock.Images) == 0) {
		return
	}
	set := map[Image]hcl.Range{}
	note := func(i Image, at hcl.Range) {
		if _, again := set[i]; !again && i.Name != "" {
			set[i] = at
		}
	}
	texts := map[string]hcl.Range{}
	for _, m := range of.Manifests {
		texts[m.Content] = c.Written["manifests"][0].DefRange
	}
	for _, m := range c.Machines {
		if m.Bad || c.Cluster == nil {
			continue
		}
		for _, name := range c.imagesOf(m) {
			note(Image{Name: name, OS: m.OS, Arch: m.Arch, Build: buildOf(m)}, m.Range)
		}
		for _, s := range m.Steps {
			if o, ok := kinds.As[kinds.Manifest](s); ok {
				if _, again := texts[o.Content]; !again {
					texts[o.Content] = m.Range
				}
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		for _, i := range c.imagesIn(text) {
			note(i, texts[text])
		}
	}
	for i, at := range set {
		i.Range = at
		c.images = append(c.images, i)
	}
	slices.SortFunc(c.images, func(a, b Image) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Platform(), b.Platform()))
	})
}

// imagesOf are the images that the runtime of a machine has before pods come: that of their sandboxes, and what the
// plan has it pull.
func (c *compiler) imagesOf(m *block.Machine) []string {
	if c.Cluster.Base.Runtime.Kind == "" {
		return nil
	}
	in := recipeInput(c.Cluster, m)
	names := []string{in.PauseImage()}
	if of := m.RecipeSettings.Images; of != nil {
		names = append(names, of.Pull...)
	}
	return names
}

// buildOf is the build of a machine as locks name it: 10.0.20348.
func buildOf(m *block.Machine) string {
	if m.OS != "windows" {
		return ""
	}
	parts := strings.SplitN(m.KnownBuild(), ".", 4)
	return strings.Join(parts[:min(len(parts), 3)], ".")
}

// podSpec is what of a pod says which images it runs, and where.
type podSpec struct {
	Containers     []container       `json:"containers"`
	InitContainers []container       `json:"initContainers"`
	NodeSelector   map[string]string `json:"nodeSelector"`
}

type container struct {
	Image string `json:"image"`
}

// object is what of an object of the cluster has pods: a Pod, what has a template of one, a CronJob.
type object struct {
	Spec struct {
		podSpec
		Template    struct{ Spec podSpec } `json:"template"`
		JobTemplate struct {
			Spec struct {
				Template struct{ Spec podSpec } `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

// imagesIn are the images of a manifest, for the platforms that its pods select. Nodes that are not of the plan, too,
// get what runs on another OS than the plan's nodes: they count as of the same architectures.
func (c *compiler) imagesIn(text string) (out []Image) {
	list, err := kube.ParseManifests(text)
	if err != nil {
		return nil // the step says so
	}
	for _, m := range list {
		b, err := json.Marshal(m.Object)
		var o object
		if err != nil || json.Unmarshal(b, &o) != nil {
			continue // it has no pods
		}
		for _, pod := range []podSpec{o.Spec.podSpec, o.Spec.Template.Spec, o.Spec.JobTemplate.Spec.Template.Spec} {
			for _, k := range append(pod.InitContainers, pod.Containers...) {
				for _, i := range c.platformsOf(pod) {
					i.Name = k.Image
					out = append(out, i)
				}
			}
		}
	}
	return out
}

// platformsOf are the platforms that a pod can run on, each as an Image without a name.
func (c *compiler) platformsOf(pod podSpec) (out []Image) {
	system, arch := pod.NodeSelector["kubernetes.io/os"], pod.NodeSelector["kubernetes.io/arch"]
	seen := map[Image]bool{}
	add := func(i Image) {
		if !seen[i] {
			seen[i] = true
			out = append(out, i)
		}
	}
	for _, m := range c.Machines {
		if !m.Bad && (system == "" || m.OS == system) && (arch == "" || m.Arch == arch) {
			add(Image{OS: m.OS, Arch: m.Arch, Build: buildOf(m)})
		}
	}
	if len(out) > 0 || system == "" {
		return out
	}
	for _, m := range c.Machines {
		add(Image{OS: system, Arch: cmp.Or(arch, m.Arch)})
	}
	return out
}

// unlockedImages says which images a lock that has images lacks, and where the first of them is wanted.
func (c *compiler) unlockedImages() (lines []string, at hcl.Range) {
	if len(c.lock.Images) == 0 {
		return nil, at
	}
	for _, i := range c.images {
		if slices.ContainsFunc(c.lock.Images, i.LockedAs) {
			continue
		}
		if lines = append(lines, fmt.Sprintf("The image %s for %s is not in it.", i.Name, i.Platform())); len(lines) == 1 {
			at = i.Range
		}
	}
	return lines, at
}
