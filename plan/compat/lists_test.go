package compat

// flagsOf lists, sorted and without dashes, the flags that the Windows build of a program accepts in a version;
// nil for a program or version that cannot be read.
func flagsOf(program, version string) []string {
	t, known := flagTables()[program]
	l, _, ok := minorLine("Kubernetes", version, since1_14, kubernetesNewest)
	if !known || !ok {
		return nil
	}
	var out []string
	for _, name := range t.names {
		for _, r := range t.rows[name] {
			if r.span.holds(l) {
				out = append(out, name)
			}
		}
	}
	return out
}

// gatesOf lists the feature gates of a version, sorted; nil for one that cannot be read.
func gatesOf(version string) []string {
	if _, _, ok := minorLine("Kubernetes", version, since1_14, kubernetesNewest); !ok {
		return nil
	}
	var out []string
	for _, name := range gates().names {
		if lookupGate(name, version).Stage != NoSuchGate {
			out = append(out, name)
		}
	}
	return out
}
