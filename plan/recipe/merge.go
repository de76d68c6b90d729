package recipe

import "maps"

// Merge returns base overlaid with own: objects are merged by key, any other value of own replaces base's. A
// nil value stays nil and removes the key when the result is merged into a file. Neither argument is changed.
func Merge(base, own map[string]any) map[string]any {
	if base == nil {
		return own
	}
	out := maps.Clone(base)
	for k, v := range own {
		have, ok1 := out[k].(map[string]any)
		want, ok2 := v.(map[string]any)
		if ok1 && ok2 {
			v = Merge(have, want)
		}
		out[k] = v
	}
	return out
}

// prune removes keys whose value is nil.
func prune(m map[string]any) map[string]any {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			m[k] = prune(maps.Clone(v))
		}
	}
	return m
}
