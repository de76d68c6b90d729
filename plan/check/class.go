package check

import (
	"slices"
	"strings"

	"nodejoin/plan/compat"
)

// classOf returns the class of a pod; ok is false if it has none, or an unknown one.
func (k *checker) classOf(spec value) (Class, bool) {
	name := spec.get("runtimeClassName").str()
	i := slices.IndexFunc(k.cluster.Classes, func(c Class) bool { return c.Name == name })
	if name == "" || i < 0 {
		return Class{}, false
	}
	return k.cluster.Classes[i], true
}

// hasUnknownClass reports that a pod names a class that neither the plan nor the files have.
func (k *checker) hasUnknownClass(spec value) bool {
	_, ok := k.classOf(spec)
	return !ok && spec.get("runtimeClassName").str() != ""
}

// unknownClass reports such a class.
func (k *checker) unknownClass(spec value) bool {
	if !k.hasUnknownClass(spec) {
		return false
	}
	v := spec.get("runtimeClassName")
	k.find("runtime-class", v, "unknown RuntimeClass %q", v.str())
	return true
}

// class checks a RuntimeClass for Windows.
func (k *checker) class() {
	c := classesOf(k.object)[0]
	if os := c.NodeSelector[osLabel]; os != "" && os != "windows" ||
		os == "" && !strings.HasPrefix(c.Handler, "runhcs-") && c.Handler != compat.HandlerDocker {
		return
	}
	if k.cluster.Runtime == "containerd" && strings.HasSuffix(c.Handler, "-hypervisor") {
		k.find("hyper-v", k.object.get("handler"), "the handler %s isolates containers by Hyper-V", c.Handler)
	}
	v := compat.CheckRuntimeClass(k.object.get("apiVersion").str(), c.Handler, k.cluster.Runtime, k.cluster.Kubernetes)
	if v.Accepted() {
		return
	}
	at := k.object.get("handler")
	if v.Status == compat.Removed || v.Status == compat.NotYet {
		at = k.object.get("apiVersion")
	}
	k.find("runtime-class-handler", at, "%s of %s: %s; instead: %s", c.Handler, k.object.get("apiVersion").str(),
		v.Why, v.Instead)
}
