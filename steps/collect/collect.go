// Package collect collects the bug report of one machine, without its secrets.
package collect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
)

// Bounds of what is collected from one machine, in bytes.
const (
	maxTail  = 256 << 10 // of one log, its end
	maxFile  = 64 << 10  // of one configuration, its end
	maxTotal = 4 << 20

	maxEvents = 200 // entries of a channel of the event log
)

// CollectRequest asks for the bug report of a machine.
type CollectRequest struct {
	Node  string       `json:"node"`
	Steps []steps.Spec `json:"steps"` // of the node: they name what to collect
}

// Part is one entry of the report. Its secrets were removed on the machine.
type Part struct {
	Name string `json:"name"` // with '/', "logs/kubelet.log", "service kubelet"
	Text string `json:"text,omitempty" lines:"true"`
	// Missing says why there is no text; "" = there is.
	Missing string `json:"missing,omitempty"`
	Cut     bool   `json:"cut,omitempty"` // only its end
}

// CollectReply answers a CollectRequest.
type CollectReply struct {
	Facts host.Facts `json:"facts"`
	Parts []Part     `json:"parts"`
}

// Collect reads what the steps of a node name: services, configurations, the ends of logs, HNS networks,
// addresses, routes and ports, firewall rules, images, entries of the Windows event log, and nodejoin's own
// notes. A part that cannot be read does not stop the others.
func Collect(ctx context.Context, r host.Reader, req CollectRequest) (CollectReply, error) {
	f, err := r.Facts(ctx)
	if err != nil {
		return CollectReply{}, err
	}
	g := &collector{r: r, f: f, seen: map[string]bool{}}
	known := Secrets(req.Steps)
	g.json("facts.json", f, nil)
	g.record(ctx)
	g.networks(ctx)
	for _, s := range req.Steps {
		step, k, err := kinds.Catalog().Decode(s)
		if err != nil || k.Evidence == nil {
			continue
		}
		for _, e := range k.Evidence(step) {
			g.evidence(ctx, e)
		}
	}
	g.events(ctx)
	for i := range g.parts {
		g.parts[i].Text = steps.Redact(g.parts[i].Text, known)
	}
	return CollectReply{Facts: f, Parts: g.parts}, nil
}

// collector collects; r cannot change the machine.
type collector struct {
	r     host.Reader
	f     host.Facts
	parts []Part
	seen  map[string]bool
	total int

	services []string // their names
}

func (g *collector) add(name, text string, cut bool, err error) {
	p := Part{Name: name, Text: text, Cut: cut}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Text, p.Missing = "", "it is not there"
	case err != nil:
		p.Text, p.Missing = "", err.Error()
	case g.total+len(text) > maxTotal:
		p.Text, p.Missing = "", fmt.Sprintf("left out: the bound of %d bytes for one machine is reached", maxTotal)
	}
	g.total += len(p.Text)
	g.parts = append(g.parts, p)
}

func (g *collector) json(name string, v any, err error) {
	var b []byte
	if err == nil {
		b, err = json.MarshalIndent(v, "", "  ")
	}
	g.add(name, string(b), false, err)
}

// once reports whether name is new, and notes it.
func (g *collector) once(name string) bool {
	key := host.PathKey(g.f.OS, name)
	if name == "" || steps.HasRef(name) || g.seen[key] {
		return false
	}
	g.seen[key] = true
	return true
}

// record adds the list of nodejoin's own things, without their earlier state, and the notes of earlier
// runs.
func (g *collector) record(ctx context.Context) {
	rec, err := record.Load(ctx, g.r, g.f)
	var claims []string
	if err == nil {
		err = rec.Withdraw(ctx, g.r)
	}
	if err == nil {
		for key, c := range rec.Claims {
			text := key.String()
			if c.Existed {
				text += " (was there before)"
			}
			claims = append(claims, text)
		}
		slices.Sort(claims)
	}
	g.json("claims.json", claims, err)
	notes, err := executor.Notes(ctx, g.r, g.f)
	g.json("history.json", notes, err)
}

// evidence adds one thing, unless another step has named it.
func (g *collector) evidence(ctx context.Context, e steps.Evidence) {
	switch {
	case e.Service != "" && g.once("service "+e.Service):
		have, err := g.r.Service(ctx, e.Service)
		have.Environment = steps.ShowEnvironment(have.Environment, e.SecretEnv)
		g.json("services/"+e.Service+".json", have, err)
		g.services = append(g.services, e.Service)
	case e.Log != "":
		g.file(ctx, "logs", e.Log, maxTail)
	case e.File != "" && !e.Secret:
		g.file(ctx, "files", e.File, maxFile)
	case e.File != "" && g.once(e.File):
		g.add("files/"+entryName(e.File), "", false, errors.New("left out: the plan marks its content as sensitive"))
	case e.Variable != "" && g.once("env "+e.Variable):
		have, err := g.r.MachineEnv(ctx, e.Variable)
		have = steps.ShowCredentials(have)
		if e.Secret && have != "" {
			have = steps.Hidden
		}
		g.add("env/"+entryName(e.Variable), have, false, err)
	case e.Firewall != "" && g.once("firewall "+e.Firewall):
		have, err := g.r.FirewallRule(ctx, e.Firewall)
		g.json("firewall/"+entryName(e.Firewall)+".json", have, err)
	case e.HNSNetwork != "":
		g.network(ctx, e.HNSNetwork)
	case e.CRI != "" && g.once("cri "+e.CRI):
		have, err := g.r.Images(ctx, e.CRI)
		g.json("runtime/images.json", have, err)
	}
}

// events adds what the service control manager and the services of the node have written to the event log of
// Windows: services that ended by themselves, and those that did not start.
func (g *collector) events(ctx context.Context) {
	if g.f.OS != "windows" {
		return
	}
	have, err := g.r.Events(ctx, "System", []string{"Service Control Manager"}, maxEvents)
	g.json("events/System.json", have, err)
	if len(g.services) > 0 {
		have, err = g.r.Events(ctx, "Application", g.services, maxEvents)
		g.json("events/Application.json", have, err)
	}
}

// networks adds the machine's adapters with their addresses, its routes, the ports in use, and all HNS networks,
// endpoints and load balancers.
func (g *collector) networks(ctx context.Context) {
	adapters, err := g.r.Adapters(ctx)
	g.json("network/adapters.json", adapters, err)
	routes, err := g.r.Routes(ctx)
	g.json("network/routes.json", routes, err)
	listeners, err := g.r.Listeners(ctx)
	g.json("network/ports.json", listeners, err)
	if g.f.OS != "windows" {
		return
	}
	endpoints, err := g.r.HNSEndpoints(ctx)
	g.json("network/hns_endpoints.json", endpoints, err)
	balancers, err := g.r.HNSLoadBalancers(ctx)
	g.json("network/hns_load_balancers.json", balancers, err)
	networks, err := g.r.HNSNetworks(ctx)
	if err != nil {
		g.json("hns", nil, err)
	}
	for _, n := range networks {
		g.network(ctx, n.Name)
	}
}

func (g *collector) network(ctx context.Context, name string) {
	if g.once("hns " + name) {
		have, err := g.r.HNSNetwork(ctx, name)
		g.json("hns/"+entryName(name)+".json", have, err)
	}
}

func (g *collector) file(ctx context.Context, folder, path string, most int64) {
	if !g.once(path) {
		return
	}
	b, cut, err := host.ReadTail(ctx, g.r, path, most)
	g.add(folder+"/"+entryName(path), strings.ToValidUTF8(string(b), "\uFFFD"), cut, err)
}

// entryName makes a path or a name the name of an entry: C:\k\config.yaml becomes
// C/k/config.yaml.
func entryName(path string) string {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '\\' || r == '/' || r == ':' })
	for i, p := range parts {
		if p == ".." || p == "." {
			parts[i] = "_"
		}
	}
	return cmp.Or(strings.Join(parts, "/"), "_")
}

// Secrets are the secrets in the arguments of steps.
func Secrets(specs []steps.Spec) []string {
	var out []string
	for _, s := range specs {
		step, k, err := kinds.Catalog().Decode(s)
		if err != nil || k.Secrets == nil {
			continue
		}
		k.Secrets(step, func(secret string) string {
			if steps.HasRef(secret) {
				return secret
			}
			out = append(out, secret)
			// A log may hold a line of a file.
			for l := range strings.Lines(secret) {
				if l = strings.TrimSpace(l); len(l) >= 8 && l != secret {
					out = append(out, l)
				}
			}
			return secret
		})
	}
	return out
}
