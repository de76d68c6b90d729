package jsonout

import (
	"time"

	"nodejoin/cmd/nodejoin/internal/history"
)

// Run is a run in the JSON output of history (examples/schema/history.schema.json).
type Run struct {
	Run      string     `json:"run"`
	Command  string     `json:"command"`
	User     string     `json:"user"`
	Host     string     `json:"host"`
	Since    time.Time  `json:"since"`
	Ended    *time.Time `json:"ended,omitempty"`
	Result   string     `json:"result"`
	ExitCode *int       `json:"exit_code,omitempty"`
	Version  string     `json:"version"`
	Plan     string     `json:"plan"`
	Digest   string     `json:"digest"`
	File     string     `json:"file,omitempty"`
	// Environment is the one of --env; "" = none.
	Environment string          `json:"environment,omitempty"`
	Vars        []string        `json:"vars,omitempty"`
	VarFiles    []string        `json:"var_files,omitempty"`
	Nodes       []string        `json:"nodes"`
	Hosts       []history.Host  `json:"hosts"`
	Events      []history.Entry `json:"events,omitempty"`
	Continue    string          `json:"continue,omitempty"`
}

// OfRun is a run with its result in words, and with its events if they are asked for.
func OfRun(r history.Run, result string, events bool) Run {
	h := r.Head
	j := Run{Run: h.Holder.Run, Command: h.Holder.Command, User: h.Holder.User, Host: h.Holder.Host,
		Since: h.Holder.Since, Result: result, Version: h.Version, Plan: h.Plan,
		Environment: h.Environment, Digest: h.Digest, Nodes: h.Nodes,
		File: h.File, Vars: h.Vars, VarFiles: h.VarFiles, Hosts: []history.Host{}}
	if result != history.Running {
		j.Continue = r.Continue()
	}
	if r.End != nil {
		j.Ended, j.ExitCode, j.Hosts = &r.End.Ended, &r.End.ExitCode, r.End.Hosts
	}
	if events {
		j.Events = r.Events
	}
	return j
}
