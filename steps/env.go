package steps

var envKind = Kind{Name: "env", Place: OnHost, Doc: "a variable of the machine's environment, or its absence",
	New: func() any { return &MachineEnv{} }}

// MachineEnv is one machine environment variable.
type MachineEnv struct {
	Name   string `json:"name" doc:"name of the variable"`
	Value  string `json:"value,omitempty" doc:"its value"`
	File   string `json:"file,omitempty" doc:"Linux: the file of NAME=value lines, default /etc/environment"`
	Absent bool   `json:"absent,omitempty" doc:"the variable must not be set"`
}
