// Package check checks the manifests of pods and workloads against the Windows nodes of a plan: fields that
// Windows does not support, placements that never match, images of another build, Services that those nodes
// do not forward as asked. It reads text only and connects to nothing.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Run checks files. The RuntimeClasses in them count as well. An error is a file that cannot be parsed as
// manifests; the result then holds nothing about the others.
func Run(files []File, c Cluster) (Report, error) {
	var all []object
	var r Report
	for _, f := range files {
		list, err := read(f)
		if err != nil {
			return Report{}, err
		}
		if len(list) == 0 {
			return Report{}, fmt.Errorf("%s contains no object", f.Name)
		}
		all = append(all, list...)
	}
	c.Classes, c.Accounts = slices.Clone(c.Classes), slices.Clone(c.Accounts)
	var used usage
	for _, o := range all {
		switch o.kind() {
		case "GMSACredentialSpec":
			c.Accounts = append(c.Accounts, o.at("metadata", "name").str())
		case "PersistentVolumeClaim":
			used.claim(o)
		}
		for _, class := range classesOf(o) {
			i := slices.IndexFunc(c.Classes, func(h Class) bool { return h.Name == class.Name })
			if i < 0 {
				c.Classes = append(c.Classes, class)
			} else {
				c.Classes[i] = class
			}
		}
	}
	for _, o := range all {
		r.Objects++
		k := checker{cluster: c, object: o, report: &r}
		k.twice(o.value)
		switch o.kind() {
		case "RuntimeClass":
			k.class()
		case "Service":
			k.service()
		case "GMSACredentialSpec":
			k.account()
		}
		spec, ok := o.podSpec()
		if !ok {
			continue
		}
		r.Pods++
		used.pod(o, spec, k.pod(spec) == "windows")
	}
	for _, o := range all {
		if o.kind() == "PersistentVolume" {
			k := checker{cluster: c, object: o, report: &r}
			k.persistent(&used)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(slices.IndexFunc(files, func(f File) bool { return f.Name == a.File })-slices.IndexFunc(files,
			func(f File) bool { return f.Name == b.File }),
			a.Line-b.Line, a.Column-b.Column, strings.Compare(a.ID, b.ID))
	})
	return r, nil
}

// pod checks the specification of pods, and returns their operating system as system does.
func (k *checker) pod(spec value) (os string) {
	k.misplaced(spec)
	os = k.system(spec)
	k.osName = spec.get("os").get("name").str() == "windows"
	switch os {
	case contradicted:
		return os // the rest is not worth reporting
	case "linux":
		k.linuxImages(spec)
		k.linuxOptions(spec)
		return os
	case "":
		k.anywhere(spec)
		return os
	}
	k.report.Windows++
	k.selector()
	k.fields(spec)
	k.images(spec, k.places(spec))
	return os
}
