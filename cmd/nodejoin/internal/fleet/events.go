package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/cluster"
)

const (
	mostEvents  = 20   // of hosts that a shard reports
	mostMessage = 1000 // bytes of a message; the API server takes 1024
)

// note is an event of the Job.
type note struct{ kind, reason, message string }

// notes are the events of a result: the hosts that did not work, and how the shard ended.
func (r Result) notes() (out []note) {
	var report struct {
		Hosts []host `json:"hosts"`
	}
	_ = json.Unmarshal(r.Report, &report) // a shard that has no report has no hosts in it
	bad, left := 0, 0
	for _, h := range report.Hosts {
		why, reason := h.Held, "NodeNotStarted"
		if h.Error != nil {
			why, reason = h.Error.Summary, "NodeFailed"
		} else if h.State != "" && h.State != "in_sync" {
			why, reason = h.State, "NodeDrifted"
		}
		if why == "" {
			continue
		}
		if bad++; bad > mostEvents {
			left++
			continue
		}
		out = append(out, note{"Warning", reason, fmt.Sprintf("%s: %s", ui.CleanLine(h.Node), ui.CleanLine(why))})
	}
	text := fmt.Sprintf("shard %d of %d, %s: %s (exit code %d). %d hosts, %d not as planned", r.Shard, r.Shards,
		r.Command, meanings[r.Code], r.Code, len(report.Hosts), bad)
	if left > 0 {
		text += fmt.Sprintf(", %d of them without an event", left)
	}
	end := note{"Normal", "ShardDone", text}
	if r.Code != codeOK {
		end.kind, end.reason = "Warning", "ShardNotDone"
	}
	return append(out, end)
}

// writeEvents writes them as events of the Job.
func (r Result) writeEvents(ctx context.Context, api *cluster.Jobs, namespace, job, uid string) error {
	for i, n := range r.notes() {
		m := object("v1", "Event", namespace, fmt.Sprintf("%s-%d.%x.%d", job, r.Shard, r.Ended.UnixNano(), i))
		at := r.Ended.UTC().Format(time.RFC3339)
		for k, v := range map[string]any{"type": n.kind, "reason": n.reason, "message": strings.ToValidUTF8(
			n.message[:min(len(n.message), mostMessage)], ""), "firstTimestamp": at, "lastTimestamp": at, "count": 1,
			"source": map[string]any{"component": "nodejoin"}, "reportingComponent": "nodejoin", "reportingInstance": job,
			"involvedObject": map[string]any{"apiVersion": "batch/v1", "kind": "Job", "namespace": namespace, "name": job,
				"uid": uid}} {
			m.Object[k] = v
		}
		m.Force = true
		if err := api.ApplyManifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
