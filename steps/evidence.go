package steps

// Evidence is one thing on a machine that a bug report shows of a step. One of the names
// is set.
type Evidence struct {
	Service    string // its configuration and state
	Log        string // path; the end of the file
	File       string // path
	Variable   string // of the machine's environment
	Firewall   string // a rule, by its name
	HNSNetwork string
	CRI        string // pipe or socket of a container runtime; its images

	// Secret: the content or value is not shown.
	Secret bool
	// SecretEnv names variables of a service's environment whose values are not shown.
	SecretEnv []string
}
