package report

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"slices"
)

// SARIF writes findings as SARIF 2.1.0 (OASIS), for code scanning. Columns count characters.
func SARIF(w io.Writer, version string, findings []Finding) error {
	type text struct {
		Text string `json:"text"`
	}
	type rule struct {
		ID string `json:"id"`
	}
	type region struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
	type artifact struct {
		URI string `json:"uri"`
	}
	type physical struct {
		ArtifactLocation artifact `json:"artifactLocation"`
		Region           *region  `json:"region,omitempty"`
	}
	type location struct {
		PhysicalLocation physical `json:"physicalLocation"`
	}
	type result struct {
		RuleID    string     `json:"ruleId"`
		RuleIndex int        `json:"ruleIndex"`
		Level     string     `json:"level"`
		Message   text       `json:"message"`
		Locations []location `json:"locations,omitempty"`
	}
	type driver struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Rules   []rule `json:"rules"`
	}
	type tool struct {
		Driver driver `json:"driver"`
	}
	type run struct {
		Tool       tool     `json:"tool"`
		ColumnKind string   `json:"columnKind"`
		Results    []result `json:"results"`
	}
	rules, results := []rule{}, []result{}
	for _, f := range findings {
		id := f.id()
		at := slices.Index(rules, rule{id})
		if at < 0 {
			at = len(rules)
			rules = append(rules, rule{id})
		}
		r := result{RuleID: id, RuleIndex: at, Level: f.Level, Message: text{f.message()}}
		if f.File != "" && f.File != "-" {
			p := physical{ArtifactLocation: artifact{(&url.URL{Path: filepath.ToSlash(f.File)}).String()}}
			if f.Line > 0 {
				p.Region = &region{f.Line, f.Column}
			}
			r.Locations = []location{{p}}
		}
		results = append(results, r)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Schema  string `json:"$schema"`
		Version string `json:"version"`
		Runs    []run  `json:"runs"`
	}{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0",
		[]run{{tool{driver{"nodejoin", version, rules}}, "unicodeCodePoints", results}}})
}
