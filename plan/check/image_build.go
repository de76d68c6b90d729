package check

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
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
