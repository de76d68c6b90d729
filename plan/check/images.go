package check

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nodejoin/plan/compat"
)

// imageTags are the words in tags of Windows images that name a build: those of mcr.microsoft.com/windows and
// of images based on them.
var imageTags = map[string]int{
	"ltsc2016": 14393, "ltsc2019": 17763, "1809": 17763, "1903": 18362, "1909": 18363, "2004": 19041, "20h2": 19042,
	"ltsc2022": 20348, "23h2": 25398, "ltsc2025": 26100,
}

// plain are the words of imageTags that name a build only next to a word for Windows.
var plain = []string{"1809", "1903", "1909", "2004", "20h2", "23h2"}

var (
	windowsWord = regexp.MustCompile(`nanoserver|servercore|windows`)
	buildText   = regexp.MustCompile(`10\.0\.(\d{5})(?:[.-]|$)`)
	tagWord     = regexp.MustCompile(`[a-z]*[0-9a-z]+`)
)

// imageBuild returns the Windows build that an image's name contains, and the word that names it; 0 if there
// is none: an image of several builds, or for Linux.
func imageBuild(image string) (build int, word string) {
	name, _, _ := strings.Cut(strings.ToLower(image), "@")
	repository, tag := name, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repository, tag = name[:i], name[i+1:]
	}
	about := windowsWord.MatchString(tag) || windowsWord.MatchString(repository[strings.IndexByte(repository, '/')+1:])
	if m := buildText.FindStringSubmatch(tag); m != nil && about {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return 0, ""
		}
		return n, "10.0." + m[1]
	}
	words := tagWord.FindAllString(tag, -1)
	for _, w := range words {
		n := imageTags[w]
		if n != 0 && (about || !slices.Contains(plain, w)) {
			return n, w
		}
	}
	return 0, ""
}

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
