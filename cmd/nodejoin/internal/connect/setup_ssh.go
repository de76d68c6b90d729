package connect

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"nodejoin/plan"
	"nodejoin/steps/transport"
)

// TrySSH logs in at the SSH servers that a plan sets up on these nodes, as later runs do. known says what the machine
// has said of a node's server over WinRM: its host key, which no other may show, and its port; nodes without a host
// key are left out. It writes which servers let nodejoin in, with their host keys, and returns why others do not.
func TrySSH(ctx context.Context, nodes []plan.Node, known func(node string) (hostKey, port string),
	out io.Writer) []error {
	var names []string
	var configs []transport.SSHConfig
	for _, n := range nodes {
		w := n.Connection.WinRM
		if w == nil || w.SetupSSH == nil {
			continue
		}
		key, port := known(n.Name)
		if key == "" {
			continue
		}
		c := transport.SSHConfig{Host: w.Host, User: w.User, HostKey: key, Identity: w.SetupSSH.Identity,
			PassphraseEnv: w.SetupSSH.PassphraseEnv, Timeout: w.Timeout}
		c.Port, _ = strconv.Atoi(port) // "" = not known: that of ssh_config, or 22
		if t := w.Through; t != nil {
			c.Jump, c.JumpKeys, c.KnownHosts, c.AcceptNew = t.Jump, t.JumpKeys, t.KnownHosts, t.AcceptNew
		}
		configs = append(configs, c)
		names = append(names, n.Name)
	}
	results := make([]error, len(configs))
	var tries sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i, c := range configs {
		tries.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = transport.TrySSH(ctx, c)
		})
	}
	tries.Wait()
	for i, c := range configs {
		if results[i] == nil {
			_, _ = fmt.Fprintf(out, "%s: its SSH server lets %s in. For connection \"ssh\": host_key = %q\n", names[i], c.User,
				c.HostKey)
		}
	}
	return slices.DeleteFunc(results, func(err error) bool { return err == nil })
}
