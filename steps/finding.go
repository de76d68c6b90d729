package steps

// Severity says how serious a finding is.
type Severity string

const (
	SeverityError   Severity = "error"   // the join would fail or break something: nothing is changed
	SeverityWarning Severity = "warning" // it may fail, now or later
	SeverityNote    Severity = "note"    // a node is better off otherwise
)

// Finding is one condition of a machine that does not hold or could not be checked.
type Finding struct {
	ID       string   `json:"id"` // stable, see Findables
	Severity Severity `json:"severity"`
	Observed string   `json:"observed" lines:"true"`         // or why it could not be checked
	Why      string   `json:"why,omitempty" lines:"true"`    // why it matters
	Remedy   string   `json:"remedy,omitempty" lines:"true"` // how to fix it
	Unasked  bool     `json:"unasked,omitempty"`
	Waived   bool     `json:"waived,omitempty"` // the plan waives it
}

// Findable is a possible finding.
type Findable struct {
	ID       string
	Severity Severity
	Doc      string // why it matters: a sentence without its full stop
}
