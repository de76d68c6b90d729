package check

// Severity of a finding.
type Severity string

const (
	Error   Severity = "error"   // it will not run, or not where intended
	Warning Severity = "warning" // it may not run, or not as intended
)

// Finding is one problem of an object, at a position in a file.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line"`   // from 1
	Column   int      `json:"column"` // from 1
	Object   string   `json:"object"` // "Deployment default/web"
	Field    string   `json:"field"`  // "spec.template.spec.hostPID"
	Observed string   `json:"observed"`
	Why      string   `json:"why"`
	Remedy   string   `json:"remedy"`
}

// row is a possible finding: an id, its severity, why it matters and what to do.
type row struct {
	id       string
	severity Severity
	why      string
	remedy   string
}
