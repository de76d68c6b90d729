package check

import "slices"

// claim is a PersistentVolumeClaim that pods use, of the files.
type claim struct {
	namespace, name string
	windows         bool   // a pod for Windows uses it
	volume, class   string // of the claim, if the files have it
}

// usage is how the pods of the files use PersistentVolumes.
type usage struct{ claims []claim }

// at returns the claim of a name, which it adds.
func (u *usage) at(namespace, name string) *claim {
	i := slices.IndexFunc(u.claims, func(c claim) bool { return c.namespace == namespace && c.name == name })
	if i < 0 {
		i, u.claims = len(u.claims), append(u.claims, claim{namespace: namespace, name: name})
	}
	return &u.claims[i]
}

// pod adds the claims of a pod; those of templates of a StatefulSet have names that begin with the template's.
func (u *usage) pod(o object, spec value, windows bool) {
	namespace := o.at("metadata", "namespace").str()
	for _, v := range spec.get("volumes").list() {
		if name := v.at("persistentVolumeClaim", "claimName").str(); name != "" {
			c := u.at(namespace, name)
			c.windows = c.windows || windows
		}
	}
	for _, t := range o.at("spec", "volumeClaimTemplates").list() {
		c := u.at(namespace, t.at("metadata", "name").str()+"-*")
		c.windows = c.windows || windows
		c.volume, c.class = t.at("spec", "volumeName").str(), t.at("spec", "storageClassName").str()
	}
}

// claim adds a PersistentVolumeClaim.
func (u *usage) claim(o object) {
	c := u.at(o.at("metadata", "namespace").str(), o.at("metadata", "name").str())
	c.volume, c.class = o.at("spec", "volumeName").str(), o.at("spec", "storageClassName").str()
}

// of returns the claims that get, or may get, a PersistentVolume.
func (u *usage) of(volume object) (out []claim) {
	name, class := volume.at("metadata", "name").str(), volume.at("spec", "storageClassName").str()
	ref := volume.at("spec", "claimRef")
	for _, c := range u.claims {
		bound := ref.there() && ref.get("name").str() == c.name && ref.get("namespace").str() == c.namespace
		if bound || c.volume != "" && c.volume == name ||
			!ref.there() && c.volume == "" && class != "" && c.class == class {
			out = append(out, c)
		}
	}
	return out
}

// persistent checks a PersistentVolume of a type that Windows nodes do not mount. It is an error if a pod for
// Windows uses it, and not reported if only others do.
func (k *checker) persistent(u *usage) {
	spec := k.object.get("spec")
	at, what := value{}, ""
	for _, sort := range append([]string{"nfs", flexVolume}, linuxVolumes...) {
		if v := spec.get(sort); v.there() {
			at, what = v, "its type is "+sort
		}
	}
	if mode := spec.get("volumeMode"); !at.there() && mode.str() == "Block" {
		at, what = mode, "it is a raw block device"
	}
	if !at.there() {
		return
	}
	id, severity := "persistent-volume", Warning
	if at.path == "spec."+flexVolume {
		id = "flex-volume"
	}
	claims := u.of(k.object)
	i := slices.IndexFunc(claims, func(c claim) bool { return c.windows })
	switch {
	case i >= 0:
		if id == "persistent-volume" {
			severity = Error
		}
		what += ", and a pod for Windows uses it through the claim " + claims[i].name
	case len(claims) > 0:
		return
	}
	k.findAs(severity, id, at, "%s", what)
}
