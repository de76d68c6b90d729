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

// NotChecked is the finding of a check that failed with err.
func (f Finding) NotChecked(err error, remedy string) Finding {
	f.Unasked, f.Observed, f.Remedy = true, "could not be checked: "+err.Error(), remedy
	return f
}

// Findable is a possible finding.
type Findable struct {
	ID       string
	Severity Severity
	Doc      string // why it matters: a sentence without its full stop
}
