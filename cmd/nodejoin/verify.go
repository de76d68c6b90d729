package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/verify"
)

// verifyFlags are those of verify alone.
type verifyFlags struct {
	images   []string
	outbound string
	start    time.Duration
	answer   time.Duration
	clean    time.Duration
}

func newVerify(a *app) *cobra.Command {
	var v verifyFlags
	c := &cobra.Command{
		Use:   "verify [PLAN]",
		Short: "Run a web server on the nodes, and ask it in every way that pods and the outside may",
		Long: `Sees whether nodes that have joined do what nodes are for: the sample web server of the
Kubernetes guides runs on each, and pods of the node and of others, the kubelet, services
by address and by name, a port of the node from here, and the way outside are tried, and
from a Linux node itself its port and the service. Each is told as passed, failed, or not
possible here, with the reason: what the cluster refuses or does not start has failed,
but for a pod on a Linux node's own network, which a policy may refuse. No host is
connected to.

All is made in a namespace of its own (nodejoin-verify-...), which is deleted in the end,
after Ctrl-C too; what a verify that was killed has left goes with the next.

Windows nodes get the image of Windows Server for their build, Linux nodes agnhost.
Others are given with --image: one for Windows must have powershell.exe and curl.exe, one
for Linux agnhost's commands netexec and connect as its entry point's arguments.

The exit code is 0 when nothing failed, 1 when something did or the namespace is not
gone, 4 when the API server does not answer.`,
		Example: `  nodejoin verify plans/prod
  nodejoin verify plans/prod --target win-1 --image windows=registry.example/servercore:ltsc2022`,
	}
	a.planFlags(c)
	f := c.Flags()
	a.targetFlags(c)
	f.BoolVar(&a.json, "json", false, "print JSON on standard output")
	a.display = "auto"
	f.Var(oneOf{&a.display, []string{"auto", "plain", "quiet"}}, "display", "progress on standard error: auto, plain or quiet")
	f.StringArrayVar(&v.images, "image", nil, "image for the nodes of an OS, `OS=IMAGE`; may be repeated")
	f.StringVar(&v.outbound, "outbound", "", "`URL` that pods ask for the way outside; default: the API server")
	for _, d := range []struct {
		name  string
		value *time.Duration
		is    time.Duration
		about string
	}{{"start-timeout", &v.start, verify.DefaultStart, "bound of the start of a pod, with the fetching of its image"},
		{"answer-timeout", &v.answer, verify.DefaultAnswer, "bound of the wait for an answer"},
		{"clean-timeout", &v.clean, verify.DefaultClean, "bound of the wait until all is deleted"}} {
		*d.value = d.is
		f.Var((*drainTime)(d.value), d.name, d.about)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		images, err := v.imagesByOS()
		if err != nil {
			return usageError{c, err}
		}
		if u, err := url.Parse(v.outbound); v.outbound != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
			return usageError{c, fmt.Errorf("--outbound %s: it must be a URL such as https://registry.example/", v.outbound)}
		}
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		if compiled.Cluster == nil {
			return errors.New("the plan has no cluster block, so that there is no cluster to run anything on")
		}
		return a.verify(c.Context(), compiled, v, images)
	}
	return c
}

func (v verifyFlags) imagesByOS() (map[string]string, error) {
	out := map[string]string{}
	for _, text := range v.images {
		os, image, ok := strings.Cut(text, "=")
		if !ok || image == "" || os != "windows" && os != "linux" {
			return nil, fmt.Errorf("--image %s: it must be windows=IMAGE or linux=IMAGE", text)
		}
		if out[os] != "" {
			return nil, fmt.Errorf("--image %s: there is one for %s already", text, os)
		}
		out[os] = image
	}
	return out, nil
}

func (a *app) verify(ctx context.Context, compiled *plan.Compiled, v verifyFlags, images map[string]string) error {
	a.hold("verify")
	api, err := clusterOpener(compiled)(ctx)
	if err != nil {
		if a.json {
			if err := a.printJSON(a.verifyJSON(&verify.Report{}, err)); err != nil {
				return err
			}
		}
		return a.verifyFailed(err)
	}
	display := a.newDisplay()
	o := verify.Options{API: api, DNSDomain: compiled.Cluster.DNSDomain, Outbound: v.outbound, Outside: outside(compiled), Holder: holderNote(a.holder.Host, a.holder.PID), Gone: holderGone,
		Start: v.start, Answer: v.answer, Clean: v.clean, Tell: &verifyTeller{display: display},
		Image: func(os, build string) (string, error) {
			switch {
			case images[os] != "":
				return images[os], nil
			case os == "windows":
				image, err := compat.ServerImage(build)
				if err != nil {
					err = fmt.Errorf("%w; name one: --image windows=IMAGE", err)
				}
				return image, err
			case os == "linux":
				return compat.AgnhostImage, nil
			}
			return "", fmt.Errorf("there is no image for a node of OS %q", os)
		}}
	if o.Outbound == "" {
		o.Outbound = compiled.Cluster.APIServer
	}
	for _, n := range compiled.Nodes {
		o.Targets = append(o.Targets, verify.Target{Node: n.Name, Version: compiled.Cluster.Version})
	}
	report, err := verify.Run(ctx, o)
	display.Close()
	if a.json {
		if err := a.printJSON(a.verifyJSON(report, err)); err != nil {
			return err
		}
	} else {
		a.showVerify(report)
	}
	code := exitOK
	if report.Failed() > 0 {
		code = exitFailed
	}
	if report.Remains != "" {
		a.problems([]ui.Problem{{Level: "error", Summary: "something of verify remains in the cluster", Detail: report.Remains,
			Remedy: "the next verify deletes it; what holds it is named above"}}, nil)
		code = exitFailed
	}
	switch {
	case ctx.Err() != nil:
		return exitError(exitInterrupted)
	case err != nil:
		return a.verifyFailed(err)
	case code != exitOK:
		return exitError(code)
	}
	return nil
}

// verifyFailed tells why the cluster could not be used.
func (a *app) verifyFailed(err error) error {
	a.problems([]ui.Problem{a.verifyProblem(err)}, nil)
	return exitError(errorCode(steps.AsError(err)))
}

func (a *app) verifyProblem(err error) ui.Problem {
	p := clusterProblem(&engine.Report{Cluster: steps.AsError(err)})
	p.Source = a.clusterAt
	return p
}

// outside asks node ports from here: over the network, or of a simulated cluster.
func outside(p *plan.Compiled) func(context.Context, string) error {
	if p.Cluster.Sandbox != "" {
		return func(ctx context.Context, url string) error {
			k, err := sandbox.OpenCluster(p.Cluster.Sandbox, p.Cluster.PodCIDR)
			if err != nil {
				return err
			}
			return k.Outside(ctx, url)
		}
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, DisableKeepAlives: true}}
	return func(ctx context.Context, url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return errors.Unwrap(err) // without the URL, which is told beside it
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
}

// verifyTeller turns what verify tells into events of the display.
type verifyTeller struct {
	mu      sync.Mutex
	display ui.Display
}

func (t *verifyTeller) Waits(node, flow, seen string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.display.Emit(event.StepProgress{Host: node, Step: flow, Note: seen})
}

func (t *verifyTeller) Done(r verify.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r.Status {
	case verify.Pass:
		t.display.Emit(event.StepDone{Host: r.Node, Step: r.Flow, Result: "unchanged", Action: "wait", Duration: r.Took})
	case verify.Fail:
		t.display.Emit(event.StepDone{Host: r.Node, Step: r.Flow, Result: "failed", Duration: r.Took, Summary: r.Detail})
	}
}

// showVerify prints what was found, node by node.
func (a *app) showVerify(r *verify.Report) {
	out := a.term.Out
	words := map[verify.Status]string{verify.Pass: ui.Paint(a.term.OutColor, ui.Green, "pass"), verify.Fail: ui.Paint(a.term.OutColor, ui.Red, "FAIL"), verify.NotPossible: ui.Paint(a.term.OutColor, ui.Dim, "not possible here")}
	count := map[verify.Status]int{}
	node := ""
	width := 0
	for _, f := range verify.Flows {
		width = max(width, len(f.Name))
	}
	for _, res := range r.Results {
		if res.Node != node {
			if node != "" {
				fmt.Fprintln(out)
			}
			node = res.Node
			fmt.Fprintln(out, ui.Paint(a.term.OutColor, ui.Bold, ui.CleanLine(node)))
		}
		count[res.Status]++
		text := words[res.Status]
		if res.Detail != "" {
			text += ": " + ui.CleanLine(res.Detail)
		}
		indent := strings.Repeat(" ", width+4)
		fmt.Fprintf(out, "  %-*s  %s\n", width, res.Flow, strings.ReplaceAll(ui.Wrap(text, "", max(a.term.Width()-width-4, 24)), "\n", "\n"+indent))
	}
	if node != "" {
		fmt.Fprintln(out)
	}
	for _, n := range r.Removed {
		fmt.Fprintf(out, "Removed what an earlier verify had left: %s.\n", ui.CleanLine(n))
	}
	for _, n := range r.Others {
		fmt.Fprintf(out, "Another verify is at work: %s.\n", ui.CleanLine(n))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d not possible here.\n", count[verify.Pass], count[verify.Fail], count[verify.NotPossible])
}

// jsonVerify is the JSON output of verify (examples/schema/verify.schema.json).
type jsonVerify struct {
	FormatVersion string     `json:"format_version"`
	Failed        int        `json:"failed"`
	Flows         []jsonFlow `json:"flows"`
	Namespace     string     `json:"namespace,omitempty"` // in which it was
	Removed       []string   `json:"removed,omitempty"`   // namespaces of earlier runs
	Others        []string   `json:"others,omitempty"`    // namespaces of runs at work
	Remains       string     `json:"remains,omitempty"`   // why a namespace is not gone
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

func (a *app) verifyJSON(r *verify.Report, err error) jsonVerify {
	out := jsonVerify{FormatVersion: "1", Failed: r.Failed(), Flows: []jsonFlow{}, Namespace: r.Namespace, Removed: r.Removed, Others: r.Others, Remains: r.Remains}
	for _, f := range r.Results {
		out.Flows = append(out.Flows, jsonFlow{f.Node, f.Flow, f.Status, f.Detail, f.Took.Seconds()})
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		p := a.verifyProblem(err)
		out.Cluster = &p
	}
	return out
}
