package check

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Report is the result of a check.
type Report struct {
	Findings []Finding
	Objects  int // objects in the files
	Pods     int // of them with pods
	Windows  int // of those, the ones that are for Windows
}

// checker checks one object.
type checker struct {
	cluster Cluster
	object  object
	report  *Report
	osName  bool // spec.os.name says windows
}

// find adds a finding of a row at a value.
func (k *checker) find(id string, at value, seen string, args ...any) {
	k.findAs(rowOf(id).severity, id, at, seen, args...)
}

func (k *checker) findAs(s Severity, id string, at value, seen string, args ...any) {
	row := rowOf(id)
	line, column := at.position()
	k.report.Findings = append(k.report.Findings,
		Finding{ID: id, Severity: s, File: k.object.file, Line: line, Column: column, Object: k.object.String(),
			Field: at.path, Observed: fmt.Sprintf(seen, args...), Why: row.why, Remedy: row.remedy})
}

// twice finds duplicate keys in a mapping. An alias is checked where it points to.
func (k *checker) twice(v value) {
	seen := map[string]int{}
	for i, n := range v.node.Content {
		in := value{node: n, path: v.path + "[" + strconv.Itoa(i) + "]"}
		if v.node.Kind == yaml.MappingNode {
			key := v.node.Content[i-i%2]
			in = value{n, key, v.under(key.Value)}
			if line := seen[key.Value]; i%2 == 0 && line != 0 && key.Kind == yaml.ScalarNode {
				k.find("key-twice", in, "%s is already on line %d", key.Value, line)
			}
			seen[key.Value] = key.Line
		}
		k.twice(in)
	}
}
