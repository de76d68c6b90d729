package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host/hosttest"
)

func TestMain(m *testing.M) {
	hosttest.InMemory()
	os.Exit(m.Run())
}

// TestScreens: the stored screens of the usual size match the program's output. "go run ./examples/internal/screens"
// writes them.
func TestScreens(t *testing.T) { current(t, sizes[1:2]) }

// TestScreensOfAllSizes is the same for all sizes.
func TestScreensOfAllSizes(t *testing.T) {
	hosttest.Release(t)
	current(t, sizes)
}

// current fails if a stored screen of these sizes does not match the program's output, or shows no scene.
func current(t *testing.T, of []size) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs the pseudo-terminals of Linux")
	}
	const repository = "../../.."
	files, err := take(t.Context(), repository, t.TempDir(), of)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(repository, "examples", "screens")
	wanted := map[string]bool{}
	for _, f := range files {
		wanted[f.name] = true
		have, err := os.ReadFile(filepath.Join(folder, f.name))
		if err != nil {
			t.Errorf("go run ./examples/internal/screens: %v", err)
			continue
		}
		if diff := cmp.Diff(plain(f.name, string(have)), plain(f.name, f.text)); diff != "" {
			t.Errorf("%s is not current; go run ./examples/internal/screens (-stored +printed):\n%s",
				f.name, diff)
		}
	}
	stored, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stored {
		if ofOther(f.Name(), of) {
			continue
		}
		if !wanted[f.Name()] {
			t.Errorf("%s shows no scene", f.Name())
		}
	}
}

// ofOther reports whether a file shows a size that is not one of these.
func ofOther(name string, of []size) bool {
	return slices.ContainsFunc(sizes, func(s size) bool {
		return !slices.Contains(of, s) && strings.Contains(name, "-"+s.String()+".")
	})
}
