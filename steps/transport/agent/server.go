package agent

import (
	"context"
	"sync"
	"time"

	"github.com/creachadair/jrpc2"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/hostlock"
	"nodejoin/steps/transport/wire"
)

// DefaultIdle is the time without any message of the controller after which the
// agent takes the connection for dead: longer than the controller's own bound, so
// that it is the controller that finds out first.
const DefaultIdle = 60 * time.Second

// Options of Serve.
type Options struct {
	Host      host.Host
	Artifacts steps.Artifacts // reads staged artifacts from DataDir/blobs
	DataDir   string          // nodejoin's folder on this machine
	Hello     wire.Hello
	Program   string // path of this program, whose digest Hello reports; "" = not known
	// Owner is the id of the user who logged in and runs this agent with root's rights; 0 = root itself. The program
	// is in a folder of that user, who sends artifacts to there.
	Owner int
	Idle  time.Duration // 0 = DefaultIdle
	// Secure: the data folder becomes private before anything is answered, if the program has this digest; "" = it is
	// left as it is.
	Secure string
}

type server struct {
	opt   Options
	ctx   context.Context // of the whole connection
	exec  *executor.Executor
	rpc   *jrpc2.Server
	blobs *blobs
	lock  *hostlock.Lock // for the whole run

	calls  sync.Mutex // held by the running call; the executor serves one at a time
	mu     sync.Mutex
	cancel context.CancelFunc // of the running call
	said   bool               // bye was said
}
