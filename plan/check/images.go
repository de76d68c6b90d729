package check

import (
	"strconv"
	"strings"

	"nodejoin/plan/compat"
)

// Windows Server version 23H2 and Server 2025 run containers of Windows Server 2022 in
// process isolation too (Microsoft Learn, "Windows container version compatibility",
// portability); whether all of an image works there is not promised.
const portable = 20348

// images checks the builds of images against those of the nodes on which a pod can run.
func (k *checker) images(spec value, nodes []Node) {
	class, _ := k.classOf(spec)
	isolated := class.Handler == compat.HandlerHypervisor
	selected := k.selection(spec).build()
	for _, c := range containers(spec) {
		image := c.get("image")
		build, word := imageBuild(image.str())
		if build == 0 || isHostProcess(spec, c) { // only its files are used
			continue
		}
		var refused, doubtful, unknown []Node
		for _, n := range nodes {
			if n.Build == "" {
				n.Build = selected
			}
			host := number(n.Build)
			switch {
			case host == 0 && !isolated:
				unknown = append(unknown, n)
			case host == 0 || host == build || isolated && build < host:
			case !isolated && build == portable && host >= 25398:
				doubtful = append(doubtful, n)
			default:
				refused = append(refused, n)
			}
		}
		where := "process isolation"
		if isolated {
			where = "Hyper-V isolation, which runs the node's build and older ones"
		}
		switch {
		case len(refused) > 0:
			k.find("image-build", image, "the image says %s (build 10.0.%d), and %s; %s", word, build, builds(refused), where)
		case len(doubtful) > 0:
			k.findAs(Warning, "image-build", image,
				"the image says %s (build 10.0.%d), and %s, which runs it but does not guarantee that all of it works", word,
				build, builds(doubtful))
		case len(unknown) > 0:
			k.find("build-unknown", image,
				"the image says %s (build 10.0.%d), and the plan does not give the build of the Node %s", word, build,
				unknown[0].Name)
		}
	}
}

// linuxImages finds images of Windows in a pod for Linux.
func (k *checker) linuxImages(spec value) {
	for _, c := range containers(spec) {
		image := c.get("image")
		if build, word := imageBuild(image.str()); build != 0 {
			k.find("image-os", image, "the image says %s, which is Windows, and the pod is for Linux", word)
		}
	}
}

func number(build string) int {
	parts := strings.Split(build, ".")
	if len(parts) < 3 {
		return 0
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil {
		return 0
	}
	return n
}

// builds names nodes with their builds, a few of them.
func builds(nodes []Node) string {
	var out []string
	for _, n := range nodes[:min(3, len(nodes))] {
		out = append(out, "the Node "+n.Name+" has "+n.Build)
	}
	text := strings.Join(out, ", ")
	if more := len(nodes) - len(out); more > 0 {
		text += " and " + strconv.Itoa(more) + " more differ too"
	}
	return text
}
