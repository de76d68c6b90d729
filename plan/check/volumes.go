package check

import (
	"slices"
	"strings"
)

// linuxVolumes are types of volumes besides nfs that Windows nodes do not mount: those of the API without the
// ones that "Windows containers in Kubernetes" lists.
var linuxVolumes = []string{"cephfs", "fc", "flocker", "glusterfs", "iscsi", "photonPersistentDisk", "portworxVolume",
	"quobyte", "rbd", "scaleIO", "storageos"}

// flexVolume is the type of volumes whose driver is a program on the node.
const flexVolume = "flexVolume"

// linuxPaths are Linux folders without a counterpart under C:\ (a path /var is C:\var).
var linuxPaths = []string{"/dev", "/proc", "/sys", "/var/run/docker.sock", "/var/run/crio", "/var/run/containerd",
	"/lib/modules", "/usr/src", "/etc/passwd", "/etc/ssl/certs", "/etc/machine-id"}

// volumes checks the volumes of a pod.
func (k *checker) volumes(spec value) {
	for _, v := range spec.get("volumes").list() {
		if m := v.at("emptyDir", "medium"); m.str() != "" {
			k.find("memory-volume", m, "the medium of the volume is %q", m.str())
		}
		if n := v.get("nfs"); n.there() {
			k.find("nfs", n, "the volume %s is on NFS", v.get("name").str())
		}
		if f := v.get(flexVolume); f.there() {
			k.find("flex-volume", f, "the driver of the volume %s is %s", v.get("name").str(), f.get("driver").str())
		}
		for _, sort := range linuxVolumes {
			if t := v.get(sort); t.there() {
				k.find("volume-type", t, "the volume %s is of the type %s", v.get("name").str(), sort)
			}
		}
		k.hostPath(v.get("hostPath"))
		k.modes(v)
	}
}

func (k *checker) hostPath(v value) {
	path, sort := v.get("path"), v.get("type")
	if strings.HasSuffix(sort.str(), "OrCreate") {
		return
	}
	if slices.ContainsFunc(linuxPaths, func(p string) bool {
		return path.str() == p || strings.HasPrefix(path.str(), p+"/")
	}) {
		k.find("host-path", path, "the path is %s", path.str())
	} else if t := sort.str(); t == "CharDevice" || t == "BlockDevice" {
		k.find("host-path", sort, "the type is %s", t)
	}
}

// modes checks the file modes in the volumes that have them.
func (k *checker) modes(volume value) {
	for _, sort := range []string{"secret", "configMap", "downwardAPI", "projected"} {
		in := volume.get(sort)
		if m := in.get("defaultMode"); m.there() {
			k.find("default-mode", m, "defaultMode is %s", m.str())
		}
		lists := []value{in.get("items")}
		for _, source := range in.get("sources").list() {
			for _, sort := range []string{"secret", "configMap", "downwardAPI"} {
				lists = append(lists, source.at(sort, "items"))
			}
		}
		for _, items := range lists {
			for _, item := range items.list() {
				if m := item.get("mode"); m.there() {
					k.find("default-mode", m, "mode is %s", m.str())
				}
			}
		}
	}
}
