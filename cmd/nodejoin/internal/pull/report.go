package pull

import (
	"context"
	"encoding/json"
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
)

// followed is the value of the annotation.
type followed struct {
	Plan    string    `json:"plan"`
	Release int64     `json:"release,omitempty"` // that was applied; 0 = none yet
	Applied time.Time `json:"applied,omitzero"`
	Result  Result    `json:"result"`
}

// tell sets the annotation of the Node, if it is another, and its condition.
func (s state) tell(ctx context.Context, api kube.API, of *File) error {
	f := followed{Plan: of.Plan, Applied: s.Applied, Result: s.Result}
	if !f.Applied.IsZero() {
		f.Release = s.Serial
	}
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	n, err := api.Node(ctx, of.Node)
	if err != nil {
		return err
	}
	if string(b) != n.Annotations[annotation] {
		if err := api.SetAnnotations(ctx, of.Node, map[string]string{annotation: string(b)}, nil); err != nil {
			return err
		}
	}
	return api.SetCondition(ctx, of.Node, kube.Condition{Type: conditionType, Status: s.Result.Reason.status(),
		Reason: string(s.Result.Reason), Message: s.Result.Message, Since: s.Since})
}

// cut is the beginning of a text that is too long for a message.
func cut(text string) string {
	const more = " ..."
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-len(more)], "") + more
}
