package steps

import "nodejoin/steps/host"

var binaryKind = Kind{Name: "binary", Place: OnHost, Doc: "one downloaded file, verified by digest",
	New: func() any { return &Binary{} }}

// Binary is one file fetched from an artifact source.
type Binary struct {
	Source
	Path   string      `json:"path" doc:"absolute path of the file"`
	Access host.Access `json:"access,omitempty" doc:"as for file; default \"program\""`
	// Services run from the file; they are stopped, processes gone, before an
	// existing one is replaced. Their service steps start them again.
	Services []string `json:"services,omitempty" doc:"services to stop before the file is replaced"`
}
