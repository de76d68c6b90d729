package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// unit is what runs in a lane.
type unit struct {
	pkg, dir string
	bin      string // the compiled tests
	test     string // one test, "" = all of the package
	env      []string
	alone    bool
}

func (u unit) String() string { return strings.TrimSuffix(u.pkg+"."+u.test, ".") }

// alone are the units that measure time, so that nothing may run beside them.
var alone = map[string]string{
	"nodejoin/examples/acceptance.TestRoundTrips":    "counts round trips by the pauses between messages",
	"nodejoin/examples/acceptance/internal/netproxy": "measures delays",
}

// markAlone marks the units of the list above. complete says that units are all that their
// packages have: then a name of the list that none of them has is an error.
func markAlone(units []unit, complete bool) error {
	packages := map[string]bool{}
	marked := map[string]bool{}
	for i, u := range units {
		packages[u.pkg] = true
		if _, units[i].alone = alone[u.String()]; units[i].alone {
			marked[u.String()] = true
		}
	}
	for name := range alone {
		pkg, _, _ := strings.Cut(name, ".Test")
		if complete && packages[pkg] && !marked[name] {
			return fmt.Errorf("%s is to run alone, and is not there", name)
		}
	}
	return nil
}

// order sorts units into the order in which they begin: those that run alone last, of the
// others those that took longest the last time first. What never ran comes before all.
func order(units []unit, times map[string]float64) {
	slices.SortStableFunc(units, func(a, b unit) int {
		if a.alone != b.alone {
			if a.alone {
				return 1
			}
			return -1
		}
		ta, knownA := times[a.String()]
		tb, knownB := times[b.String()]
		if knownA != knownB {
			if knownA {
				return 1
			}
			return -1
		}
		return cmp.Compare(tb, ta)
	})
}

// readTimes reads how long each unit took when it last passed, in seconds. Without the file
// nothing is known.
func readTimes(file string) map[string]float64 {
	times := map[string]float64{}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &times); err != nil {
			fmt.Fprintf(os.Stderr, "lanes: %s: %v; the order is that of the sources\n", file, err)
			return map[string]float64{}
		}
	}
	return times
}

func writeTimes(file string, times map[string]float64) error {
	text, err := json.MarshalIndent(maps.Clone(times), "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
