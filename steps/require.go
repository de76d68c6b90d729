package steps

var requireKind = Kind{Name: "require", Place: OnHost, Doc: "a condition of the machine that must hold before anything else is done",
	New: func() any { return &Require{} }}

// Require checks facts and space; it changes nothing, and fails with what was seen.
type Require struct {
	OS       string `json:"os,omitempty" doc:"\"windows\" or \"linux\""`
	Arch     string `json:"arch,omitempty" doc:"\"amd64\" or \"arm64\""`
	MinBuild string `json:"min_build,omitempty" doc:"lowest Windows build, for example 10.0.17763"`
	Admin    bool   `json:"admin,omitempty" doc:"administrator (Linux: root) rights are needed"`
	Path     string `json:"path,omitempty" doc:"volume on which min_free is wanted"`
	MinFree  string `json:"min_free,omitempty" doc:"free space on path's volume, for example 2GiB"`
	// NodeNameFree: no service with this name that is not ours.
	ForeignServices []string `json:"foreign_services,omitempty" doc:"services that may exist only if nodejoin registered them"`
}
