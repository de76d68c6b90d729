package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/kube"
	"nodejoin/steps/verify"
)

// verifyCommand is one run of verify.
type verifyCommand struct {
	*app
	imageFlags           []string // OS=IMAGE
	outbound             string
	start, answer, clean time.Duration

	compiled *plan.Compiled
	images   map[string]string // by OS
}

// verified is the result of verify.
type verified struct {
	report *verify.Report
	opened bool  // the cluster could be opened
	err    error // the cluster could not be used, or no longer
}

func newVerify(a *app) *cobra.Command {
	x := &verifyCommand{app: a}
	c := &cobra.Command{
		Use:   "verify [PLAN]",
		Short: "Run a web server on the nodes, and test every way to reach it",
		Long: `Tests whether nodes that have joined can run pods. The sample web server of the Kubernetes
guides runs on each node, and is asked by pods on the same node and on others, by the
kubelet, through a service by address and by name, by the name of its pod, and through a
port of the node from this computer; pods also ask for an address outside the cluster, and
for a name outside if --outbound gives one. Through the API server its log is read, a
command runs in its container, its port is forwarded, and the kubelet is asked for the
usage of the node. A Linux node itself asks for its port and the service. Each test passes,
fails, or is not possible here, with the reason: what the cluster refuses or does not start
has failed, except for a pod on a Linux node's own network, and what the user may not do
through the API server. No host is connected to.

Everything runs in a namespace of its own (nodejoin-verify-...), which is deleted in the
end, after Ctrl-C too. If a verify was killed, the next one deletes what it left.

Windows nodes use the image of Windows Server for their build, Linux nodes agnhost. To use
other images, give them with --image: one for Windows needs powershell.exe and curl.exe,
one for Linux needs agnhost's commands netexec and connect as its entry point's arguments,
and echo.

The exit code is 0 if nothing failed, 1 if something did or the namespace could not be
deleted, and 4 if the API server does not answer.`,
		Example: `  nodejoin verify plans/prod
  nodejoin verify plans/prod --target win-1 --image windows=registry.example/servercore:ltsc2022`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.targetFlags(c)
	a.outputFlags(c)
	a.junitFlag(c)
	a.reportFlag(c)
	f := c.Flags()
	f.StringArrayVar(&x.imageFlags, "image", nil, "image for the nodes of an OS, `OS=IMAGE`; may be repeated")
	f.StringVar(&x.outbound, "outbound", "",
		"`URL` outside the cluster that pods ask for, best with a name; default: the API server")
	boundFlag(c, &x.start, verify.DefaultStart, "start-timeout",
		"limit for the start of a pod, including the download of its image")
	boundFlag(c, &x.answer, verify.DefaultAnswer, "answer-timeout", "limit for an answer")
	boundFlag(c, &x.clean, verify.DefaultClean, "clean-timeout", "limit for deleting everything again")
	return c
}

func (x *verifyCommand) run(c *cobra.Command, args []string) error {
	if err := x.load(c, args); err != nil {
		return err
	}
	result := x.test(c.Context())
	if err := x.show(result); err != nil {
		return err
	}
	x.failures(c.Context(), result)
	page := x.page("verify", args)
	page.Data = x.data(result)
	err := errors.Join(report.WriteJUnit(x.junit, x.titled("nodejoin verify"),
		report.VerifiedCases(result.report, result.err)),
		report.WriteHTML(x.reportFile, page.OfVerify(result.report, result.err)))
	return exit(x.written(result.code(c.Context()), err))
}

func (x *verifyCommand) load(c *cobra.Command, args []string) (err error) {
	if x.images, err = imagesByOS(x.imageFlags); err != nil {
		return usageError{c, err}
	}
	if u, err := url.Parse(x.outbound); x.outbound != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
		return usageError{c, fmt.Errorf("--outbound %s: it must be a URL such as https://registry.example/", x.outbound)}
	}
	if x.compiled, err = x.app.load(c.Context(), args); err != nil {
		return err
	}
	if x.compiled.Cluster == nil {
		return errors.New("the plan has no cluster block, so there is no cluster to run anything on")
	}
	return nil
}

func imagesByOS(flags []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range flags {
		os, image, ok := strings.Cut(text, "=")
		if !ok || image == "" || os != "windows" && os != "linux" {
			return nil, fmt.Errorf("--image %s: it must be windows=IMAGE or linux=IMAGE", text)
		}
		if out[os] != "" {
			return nil, fmt.Errorf("--image %s: there is already an image for %s", text, os)
		}
		out[os] = image
	}
	return out, nil
}

// test runs the web server and all tests.
func (x *verifyCommand) test(ctx context.Context) verified {
	x.holder = holder.New("verify")
	api, err := connect.Cluster(x.compiled)(ctx)
	if err != nil {
		return verified{report: &verify.Report{}, err: err}
	}
	display := x.newDisplay(ui.OnHosts("Verifying", x.compiled))
	defer display.Close()
	tested, err := verify.Run(ctx, x.testOptions(api, display))
	return verified{tested, true, err}
}

func (x *verifyCommand) testOptions(api kube.API, display ui.Display) verify.Options {
	o := verify.Options{API: api, DNSDomain: x.compiled.Cluster.DNSDomain, Outbound: x.outbound,
		Outside: connect.Outside(x.compiled),
		Holder:  holder.Note(x.holder.Host, x.holder.PID), Gone: holder.NoteGone,
		Start: x.start, Answer: x.answer, Clean: x.clean,
		Reporter: &verifyEvents{display: display, log: x.log}, Image: x.image}
	if o.Outbound == "" {
		o.Outbound = x.compiled.Cluster.APIServer
	}
	for _, n := range x.compiled.Nodes {
		o.Targets = append(o.Targets, verify.Target{Node: n.Name, Version: x.compiled.Cluster.Version})
	}
	return o
}

// image is the image of the web server for nodes of an OS and a build.
func (x *verifyCommand) image(os, build string) (string, error) {
	switch {
	case x.images[os] != "":
		return x.images[os], nil
	case os == "windows":
		image, err := compat.ServerImage(build)
		if err != nil {
			err = fmt.Errorf("%w; give one with --image windows=IMAGE", err)
		}
		return image, err
	case os == "linux":
		return compat.AgnhostImage, nil
	}
	return "", fmt.Errorf("there is no image for a node of OS %q", os)
}

func (x *verifyCommand) show(r verified) error {
	if x.json {
		return x.printJSON(x.data(r))
	}
	if r.opened {
		ui.WriteTests(x.term, r.report)
	}
	return nil
}

// data is what --json prints.
func (x *verifyCommand) data(r verified) jsonout.Verify {
	var cluster *ui.Problem
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		p := x.clusterFailure(r.err)
		cluster = &p
	}
	return jsonout.OfVerify(r.report, cluster)
}

// failures writes why the cluster could not be used, or what is left there.
func (x *verifyCommand) failures(ctx context.Context, r verified) {
	if r.report.Remains != "" {
		x.problems([]ui.Problem{{Level: "error", Summary: "verify could not delete everything that it made in the cluster",
			Detail: r.report.Remains,
			Remedy: "the next verify deletes it, once what is named above allows it"}}, nil)
	}
	if r.err != nil && ctx.Err() == nil {
		x.problems([]ui.Problem{x.clusterFailure(r.err)}, nil)
	}
}

func (x *verifyCommand) clusterFailure(err error) ui.Problem {
	p := ui.ClusterProblem(steps.AsError(err))
	p.Source = x.clusterAt
	return p
}

func (r verified) code(ctx context.Context) int {
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case r.err != nil:
		return errorCode(steps.AsError(r.err))
	case r.report.Failed() > 0 || r.report.Remains != "":
		return exitFailed
	}
	return exitOK
}
