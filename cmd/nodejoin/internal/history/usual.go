package history

import (
	"path/filepath"
	"slices"
	"time"

	"nodejoin/steps/event"
)

// recent is how many runs Usual reads.
const recent = 5

// Usual is how long steps took in the newest runs of the plan in the environment: the median of the same host, or of
// all hosts where it has never run the step, or -1. What cannot be read counts as not known.
func Usual(root, plan, environment string) func(host, step string) time.Duration {
	took := map[[2]string][]time.Duration{} // by host and step; host "" = all
	for _, r := range newestOf(Dir(root, plan, environment)) {
		for _, entry := range r.Events {
			e, err := event.Decode(entry.Event)
			d, ok := e.(event.StepDone)
			if err != nil || !ok || d.Result != "changed" && d.Action != "wait" || d.Result == "failed" {
				continue
			}
			for _, host := range []string{d.Host, ""} {
				key := [2]string{host, d.Step}
				took[key] = append(took[key], d.Duration)
			}
		}
	}
	for _, list := range took {
		slices.Sort(list)
	}
	return func(host, step string) time.Duration {
		for _, h := range []string{host, ""} {
			if list := took[[2]string{h, step}]; len(list) > 0 {
				return list[len(list)/2]
			}
		}
		return -1
	}
}

func newestOf(dir string) (out []Run) {
	names, err := list(dir)
	if err != nil {
		return nil
	}
	for _, name := range names[max(0, len(names)-recent):] {
		if r, err := read(filepath.Join(dir, name+suffix)); err == nil {
			out = append(out, r)
		}
	}
	return out
}
