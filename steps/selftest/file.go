package selftest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Parse reads the areas of a test, "files,registry"; "all" = all of them.
func Parse(text string) (Request, error) {
	if text == "all" {
		return Request{}, nil
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		if !slices.Contains(Areas(), name) {
			return Request{}, fmt.Errorf("a self-test has no area %q; its areas are %s", name, strings.Join(Areas(), ", "))
		}
	}
	return Request{Areas: names}, nil
}

// Save writes the report into a folder on the controller and returns the file. Earlier ones stay: "NAME-2.json".
func (r Report) Save(folder, node string) (string, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err != nil {
		return "", err
	}
	name := r.FileName(node)
	for i := 2; ; i++ {
		path := filepath.Join(folder, name)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) && i < 1000 {
			name = fmt.Sprintf("%s-%d.json", strings.TrimSuffix(r.FileName(node), ".json"), i)
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(append(text, '\n'))
		return path, errors.Join(err, f.Close())
	}
}

// Summarize writes what a reader wants to know at once: all that was otherwise, why questions were not asked, and
// whether the machine is as it was.
func (r Report) Summarize(w io.Writer) {
	fmt.Fprintf(w, "%s, build %s, language %s\n", cmp.Or(r.Edition, "an unknown product"), r.Build,
		cmp.Or(r.Language, "not known"))
	for _, one := range r.Results {
		if one.Outcome != AsExpected {
			fmt.Fprintf(w, "  %s: %s: %s: %s\n", one.Outcome, one.Area, one.Name, strings.ReplaceAll(one.Seen, "\n", " "))
		}
	}
	fmt.Fprintf(w, "  %d as expected, %d otherwise, %d not asked.\n", r.Count(AsExpected), r.Count(Otherwise),
		r.Count(NotAsked))
	if r.AsBefore {
		fmt.Fprintln(w, "  The machine is as it was before.")
		return
	}
	fmt.Fprintln(w, "  The machine is not as it was before:")
	for _, d := range r.Differs {
		fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(d, "\n", " "))
	}
}
