package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// jsonLogs is the JSON output of logs (examples/schema/logs.schema.json).
type jsonLogs struct {
	File    string   `json:"file"`
	Entries int      `json:"entries"`
	Missing []string `json:"missing"`
}

func newLogs(a *app) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "logs [PLAN]",
		Short: "Write one file with what a bug report needs",
		Long: fmt.Sprintf(`Asks every host and the cluster, changes nothing, and writes a zip file: versions, the
plan, a fresh check of every step, service states, configurations, the ends of logs, HNS
networks and endpoints, addresses, routes and ports, the Node with its events, the last
runs. What cannot be had is named with the reason; the rest is there all the same.

Secrets are taken out on the host before anything is sent: what the plan marks as
sensitive, and what has the form of a key, a token or a password. Look through the file
before you give it away: no program knows every secret. It has at most %d MiB.`, maxBundle>>20),
		Example: `  nodejoin logs plans/prod --target win-1 -o win-1.zip`,
	}
	a.planFlags(c)
	a.runFlags(c)
	c.Flags().StringVarP(&out, "output", "o", "", "the `file` to write; default nodejoin-logs-TIME.zip in this folder")
	c.RunE = func(c *cobra.Command, args []string) error {
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		now := time.Now().UTC()
		if out == "" {
			out = "nodejoin-logs-" + now.Format("20060102-150405") + ".zip"
		}
		if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--output %s: something is there already, and is not overwritten; name another file", out)
		}
		d := a.newDisplay()
		s := engine.New(compiled, a.options(compiled, d.Emit))
		defer s.Close()
		report := s.Check(c.Context())
		gathered := s.Gather(c.Context())
		d.Close()
		if c.Context().Err() != nil {
			return exitError(exitInterrupted)
		}
		b, err := a.bundle(args, compiled, now)
		if err != nil {
			return err
		}
		if report.Cluster != nil {
			b.missing("cluster", report.Cluster.Error())
		}
		for _, g := range gathered {
			b.host(compiled, g)
		}
		if err := b.write(out); err != nil {
			return fmt.Errorf("--output %s: %w", out, err)
		}
		if a.json {
			return a.printJSON(jsonLogs{out, len(b.entries), append([]string{}, b.lacks...)})
		}
		fmt.Fprintf(a.term.Out, "%s: %d entries of %d %s", ui.CleanLine(out), len(b.entries), len(gathered), plural(len(gathered), "host"))
		if len(b.lacks) > 0 {
			fmt.Fprintf(a.term.Out, ", %d could not be had (missing.txt says why)", len(b.lacks))
		}
		fmt.Fprintln(a.term.Out, ".\nLook through it before you give it away.")
		return nil
	}
	return c
}

const (
	// maxBundle bounds the content of a bundle before it is compressed, in bytes.
	maxBundle = 64 << 20
	// bundleRuns is how many of the last runs are in it.
	bundleRuns = 3
)

// bundle is a zip file in the making.
type bundle struct {
	entries []entry
	lacks   []string // "win-1/logs/x.log: why"
	known   []string // secrets
	size    int
}

type entry struct {
	name string
	text string
}

func (b *bundle) missing(name, why string) {
	b.lacks = append(b.lacks, name+": "+steps.Redact(ui.CleanLine(why), b.known))
}

// add takes secrets out, whether or not that was done before.
func (b *bundle) add(name, text string) {
	text = steps.Redact(text, b.known)
	if b.size += len(text); b.size > maxBundle {
		b.size -= len(text)
		b.missing(name, fmt.Sprintf("left out: the bound of %d MiB is reached", maxBundle>>20))
		return
	}
	b.entries = append(b.entries, entry{name, text})
}

func (b *bundle) json(name string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		b.missing(name, err.Error())
		return
	}
	b.add(name, string(text)+"\n")
}

// bundle begins with what is known on this computer: the plan, versions, the last runs.
func (a *app) bundle(args []string, c *plan.Compiled, now time.Time) (*bundle, error) {
	path := planArg(args)
	vars, err := a.variables()
	if err != nil {
		return nil, err
	}
	p, diags := plan.Load(path, plan.Options{Vars: vars, VarFiles: a.varFiles, Env: lookupEnv, Version: version})
	if diags.HasErrors() {
		return nil, fmt.Errorf("the plan was changed while it was read: %w", diags)
	}
	b := &bundle{}
	for name, value := range vars {
		if p.Sensitive(name) {
			b.known = append(b.known, value)
		}
	}
	const fromEnv = "NODEJOIN_VAR_"
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if name, ok := strings.CutPrefix(name, fromEnv); ok && p.Sensitive(name) {
			b.known = append(b.known, value)
		}
	}
	for _, n := range c.Nodes {
		b.known = append(b.known, steps.Secrets(n.Steps)...)
		if s := n.Connection.SSH; s != nil {
			for _, name := range []string{s.PasswordEnv, s.PassphraseEnv} {
				if value, ok := lookupEnv(name); ok && name != "" {
					b.known = append(b.known, value)
				}
			}
		}
	}
	slices.Sort(b.known)
	b.known = slices.Compact(b.known)

	b.add("about.txt", about(c, now))
	for _, name := range slices.Sorted(maps.Keys(p.Files())) {
		if strings.HasSuffix(name, plan.Suffix) { // files of values may hold secrets
			b.add("plan/"+filepath.Base(name), string(p.Shown(name)))
		}
	}
	b.runs(args)
	return b, nil
}

// about is the head of a bug report: what to look at, and what is left to be said.
func about(c *plan.Compiled, now time.Time) string {
	var s strings.Builder
	fmt.Fprintf(&s, "nodejoin %s on %s/%s, %s\n", version, runtime.GOOS, runtime.GOARCH, now.Format(time.RFC3339))
	if c.Cluster != nil {
		fmt.Fprintf(&s, "cluster %q: Kubernetes %s, pod network %s\n", c.Cluster.Name, c.Cluster.Version, c.Cluster.PodCIDR)
	}
	for _, n := range c.Nodes {
		fmt.Fprintf(&s, "node %s: %s/%s, by %s\n", n.Name, n.OS, n.Arch, n.Connection.Type)
	}
	s.WriteString(`
Here for a bug report:
  plan/                        versions, network and runtime that were asked for
  history/                     the last runs
  NODE/facts.json              operating system, build, addresses
  NODE/check.json              every step, checked afresh
  NODE/cluster/                version of the API server, the Node, its events and pods
  NODE/network/                addresses, routes, ports that are held, HNS endpoints
  NODE/services/ files/ hns/ firewall/ env/   as they are on the machine
  NODE/logs/                   the ends of the logs
  missing.txt                  what could not be had, and why

Left for you to say: what you did, what you expected, what happened instead, since when,
and what had been changed before. An issue with Windows nodes in Kubernetes itself is
labelled there with the comment "/sig windows".
`)
	return s.String()
}

func (b *bundle) runs(args []string) {
	path, err := planPath(args)
	root := ""
	if err == nil {
		root, err = history.Root()
	}
	var runs []history.Run
	if err == nil {
		runs, err = history.Runs(root, path)
	}
	if err != nil {
		b.missing("history", err.Error())
		return
	}
	for _, r := range runs[max(0, len(runs)-bundleRuns):] {
		b.json("history/"+r.Head.Holder.Run+".json", runJSON(r, true))
	}
}

func (b *bundle) host(c *plan.Compiled, g engine.Gathered) {
	dir := g.Node.Name + "/"
	if g.Err != nil {
		p := problemOf(g.Err)
		b.missing(dir+"the machine", p.Summary+": "+p.Detail)
	}
	if g.Check.Err != nil {
		p := problemOf(g.Check.Err)
		b.missing(dir+"the check of all steps", p.Summary+": "+p.Detail)
	}
	b.json(dir+"check.json", planJSON(c, &engine.Report{Hosts: []engine.HostReport{g.Check}}))
	for _, p := range g.Parts {
		switch {
		case p.Missing != "":
			b.missing(dir+p.Name, p.Missing)
		case p.Cut:
			b.add(dir+p.Name, "(only the end)\n"+p.Text)
		default:
			b.add(dir+p.Name, p.Text)
		}
	}
}

// write writes the file as a whole or not at all.
func (b *bundle) write(name string) error {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, e := range append(b.entries, entry{"missing.txt", strings.Join(append(b.lacks, ""), "\n")}) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: time.Now()})
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return replaceFile(name, buf.Bytes(), 0o600)
}
