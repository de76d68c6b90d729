package pull

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"nodejoin/steps/kube"
)

const (
	// conditionType is that of the condition of a Node that follows a plan.
	conditionType = kube.OwnCondition + "FollowsPlan"
	// annotation of a Node that follows a plan: JSON with the plan, the release that it has, and what the last round
	// came to.
	annotation = "nodejoin.dev/follows"
	// maxMessage bounds a message, in bytes.
	maxMessage = 1024
	reportFor  = 30 * time.Second
)

// followed is the value of the annotation.
type followed struct {
	Plan    string    `json:"plan"`
	Release int64     `json:"release,omitempty"` // that was applied; 0 = none yet
	Applied time.Time `json:"applied,omitzero"`
	Result  Result    `json:"result"`
}

// report says what a round came to, here, on the machine and on its Node. That the cluster cannot be told is no failure
// of the round: the next one tells it.
func (r *Run) report(ctx context.Context, result Result) error {
	result.Message = cut(result.Message)
	r.Say(string(result.Reason) + ": " + result.Message)
	if r.state.Since.IsZero() || result.Reason.status() != r.state.Result.Reason.status() {
		r.state.Since = time.Now().UTC().Truncate(time.Second)
	}
	r.state.Result = result
	if err := r.tell(ctx); err != nil {
		r.Say("the Node does not have this result: " + err.Error())
	}
	return r.state.write(r.statePath())
}

// tell sets the annotation, if it is another, and the condition.
func (r *Run) tell(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reportFor, errors.New("no answer for "+reportFor.String()))
	defer cancel()
	api, err := r.cluster(ctx)
	if err != nil {
		return err
	}
	f := followed{Plan: r.file.Plan, Applied: r.state.Applied, Result: r.state.Result}
	if !f.Applied.IsZero() {
		f.Release = r.state.Serial
	}
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if string(b) != r.state.Told {
		if err := api.SetAnnotations(ctx, r.file.Node, map[string]string{annotation: string(b)}, nil); err != nil {
			return err
		}
		r.state.Told = string(b)
	}
	return api.SetCondition(ctx, r.file.Node, kube.Condition{Type: conditionType, Status: r.state.Result.Reason.status(),
		Reason: string(r.state.Result.Reason), Message: r.state.Result.Message, Since: r.state.Since})
}

// cut is the beginning of a text that is too long for a message.
func cut(text string) string {
	const more = " ..."
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-len(more)], "") + more
}
