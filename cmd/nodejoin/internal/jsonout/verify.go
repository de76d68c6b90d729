package jsonout

import (
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/verify"
)

// Verify is the JSON output of verify (examples/schema/verify.schema.json).
type Verify struct {
	FormatVersion string   `json:"format_version"`
	Failed        int      `json:"failed"`
	Flows         []flow   `json:"flows"`
	Namespace     string   `json:"namespace,omitempty"` // in which the tests ran
	Removed       []string `json:"removed,omitempty"`   // namespaces of earlier runs
	Others        []string `json:"others,omitempty"`    // namespaces of other runs that are running
	Remains       string   `json:"remains,omitempty"`   // why a namespace could not be deleted
	// Cluster is why the cluster could not be used, or no longer.
	Cluster *ui.Problem `json:"cluster_error,omitempty"`
}

type flow struct {
	Node    string        `json:"node"`
	Flow    string        `json:"flow"`
	Status  verify.Status `json:"status"`
	Detail  string        `json:"detail,omitempty"`
	Seconds float64       `json:"seconds"`
}

// OfVerify is the result of verify. cluster is why the cluster could not be used, nil if it could.
func OfVerify(r *verify.Report, cluster *ui.Problem) Verify {
	out := Verify{FormatVersion: "1", Failed: r.Failed(), Flows: []flow{}, Namespace: r.Namespace,
		Removed: r.Removed, Others: r.Others, Remains: r.Remains, Cluster: cluster}
	for _, f := range r.Results {
		out.Flows = append(out.Flows, flow{f.Node, f.Flow, f.Status, f.Detail, f.Took.Seconds()})
	}
	return out
}
