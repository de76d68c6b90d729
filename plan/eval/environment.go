package eval

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/steps"
)

// EnvironmentDir is the folder beside a plan with the values of its environments: prod.joinvars for --env prod.
const EnvironmentDir = "env"

const valuesSuffix = ".joinvars"

// Environments are the names of the environments of the plan in dir, sorted; none if it has no such folder.
func Environments(dir string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(dir, EnvironmentDir))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(strings.TrimSuffix(e.Name(), ".json"), valuesSuffix)
		if ok && !e.IsDir() && steps.IsEnvironment(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// environmentFile is the file with the values of an environment; "", reported, if there is none.
func (sc *Scope) environmentFile(name string) string {
	if !steps.IsEnvironment(name) {
		sc.Fail(hcl.Range{}, "invalid environment", "--env %s: the name of an environment has small letters, digits and "+
			"'-', begins and ends with a letter or a digit, and has at most 40 characters.", name)
		return ""
	}
	dir := filepath.Join(sc.Files.Dir, EnvironmentDir)
	var found []string
	for _, file := range []string{name + valuesSuffix, name + valuesSuffix + ".json"} {
		if _, err := sc.Files.Stat(filepath.Join(dir, file)); err == nil {
			found = append(found, filepath.Join(dir, file))
		}
	}
	switch len(found) {
	case 1:
		return found[0]
	case 2:
		sc.Fail(hcl.Range{}, "two files of one environment", "--env %s: both %s and %s.json are in %s/. Keep one of them.",
			name, name+valuesSuffix, name+valuesSuffix, EnvironmentDir)
		return ""
	}
	what := "The plan has no environments."
	if names := Environments(sc.Files.Dir); len(names) > 0 {
		what = UnknownName("environment", name, names)
	}
	sc.Fail(hcl.Range{}, "unknown environment", "--env %s: there is no %s/%s%s beside the plan. %s", name, EnvironmentDir,
		name, valuesSuffix, what)
	return ""
}
