package wire

import (
	"errors"
	"time"

	"nodejoin/steps/executor"
)

// Pause has the service of a node fix nothing until a time, or lets it work again.
var Pause = Call[executor.PauseRequest, executor.PauseReply]{
	Method: "pause", Run: (*executor.Executor).Pause,
	Bound: func(executor.PauseRequest) Bound { return brief(time.Minute) },
	Verify: func(_ executor.PauseRequest, r executor.PauseReply) error {
		if r.Before != nil && r.Before.Since.IsZero() {
			return errors.New("a pause without a beginning")
		}
		return nil
	},
}
