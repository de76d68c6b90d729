package eval

// mark is what a value carries through every expression.
type mark string

const (
	// sensitive values never reach a screen, a log, JSON output or an error.
	sensitive mark = "sensitive"
	// later values are known only when nodes are joined. Until then they are strings that hold
	// a reference (steps.Ref), which templates may contain and nothing may inspect.
	later mark = "later"
	// ofNodes values are known once the nodes of the plan are read; until then they are unknown.
	ofNodes mark = "of nodes"
)
