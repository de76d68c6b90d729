package main

import (
	"context"
	"errors"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/verify"
)

// jsonVerify is the JSON output of verify (examples/schema/verify.schema.json).
type jsonVerify struct {
	FormatVersion string     `json:"format_version"`
	Failed        int        `json:"failed"`
	Flows         []jsonFlow `json:"flows"`
	Namespace     string     `json:"namespace,omitempty"` // in which the tests ran
	Removed       []string   `json:"removed,omitempty"`   // namespaces of earlier runs
	Others        []string   `json:"others,omitempty"`    // namespaces of other runs that are running
	Remains       string     `json:"remains,omitempty"`   // why a namespace could not be deleted
	// Cluster is why the cluster could not be used, or no longer.
	Cluster *ui.Problem `json:"cluster_error,omitempty"`
}

type jsonFlow struct {
	Node    string        `json:"node"`
	Flow    string        `json:"flow"`
	Status  verify.Status `json:"status"`
	Detail  string        `json:"detail,omitempty"`
	Seconds float64       `json:"seconds"`
}

func (x *verifyCommand) verifyJSON(v verified) jsonVerify {
	r := v.report
	out := jsonVerify{FormatVersion: "1", Failed: r.Failed(), Flows: []jsonFlow{}, Namespace: r.Namespace,
		Removed: r.Removed, Others: r.Others, Remains: r.Remains}
	for _, f := range r.Results {
		out.Flows = append(out.Flows, jsonFlow{f.Node, f.Flow, f.Status, f.Detail, f.Took.Seconds()})
	}
	if v.err != nil && !errors.Is(v.err, context.Canceled) {
		p := x.clusterFailure(v.err)
		out.Cluster = &p
	}
	return out
}
