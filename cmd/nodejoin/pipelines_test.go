package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

// pipeline is the part of a file for GitHub Actions or GitLab that runs commands.
type pipeline struct {
	Env  map[string]string    `json:"env"`
	Jobs map[string]githubJob `json:"jobs"`
	Runs githubJob            `json:"runs"` // of an action
}

type githubJob struct {
	Steps []struct {
		Uses, Run, If string
		Env           map[string]string `json:"env"`
	} `json:"steps"`
}

// gitlabJob is a job of a GitLab pipeline, or its defaults.
type gitlabJob struct {
	Before []string `json:"before_script"`
	Script []string `json:"script"`
	After  []string `json:"after_script"`
}

// expression is one of GitHub Actions.
var expression = regexp.MustCompile(`\$\{\{\s*([\w.-]+)\s*\}\}`)

// cmdPipeline runs the commands of a pipeline's job, or of an action whose input "run" is JOB, in the folder that the
// repository would be in: pipeline FILE JOB
func cmdPipeline(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: pipeline FILE JOB")
	}
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		at := filepath.Join(dir, "nodejoin")
		if _, err := os.Stat(at); err == nil && ts.Getenv("NODEJOIN") == "" {
			ts.Setenv("NODEJOIN", at)
		}
	}
	run := github
	if strings.Contains(args[0], "gitlab") {
		run = gitlab
	}
	if err := run(ts, []byte(ts.ReadFile(args[0])), args[1]); (err != nil) != neg {
		ts.Fatalf("job %s of %s: %v", args[1], args[0], err)
	}
}

// github runs a job as a runner of GitHub Actions does: a shell for each step, which has the secrets that it names.
func github(ts *testscript.TestScript, text []byte, job string) (failed error) {
	var p pipeline
	ts.Check(yaml.Unmarshal(text, &p))
	steps := slices.Concat(p.Jobs[job].Steps, p.Runs.Steps)
	if len(steps) == 0 {
		ts.Fatalf("there is no job %s", job)
	}
	work := ts.Getenv("WORK")
	known := map[string]string{"vars.NODEJOIN_URL": ts.Getenv("NODEJOIN_URL"), "github.token": "token",
		"vars.NODEJOIN_SHA256": ts.Getenv("NODEJOIN_SHA256"), "secrets.SSH_KEY": ts.ReadFile(ts.Getenv("SSH_KEY")),
		"github.event.pull_request.html_url": "https://github.example/nodes/pull/1", "inputs.run": job,
		"inputs.plan": "plans/prod"}
	for input, from := range map[string]string{"url": "vars.NODEJOIN_URL", "sha256": "vars.NODEJOIN_SHA256",
		"ssh-key": "secrets.SSH_KEY"} {
		known["inputs."+input] = known[from]
	}
	paths, added := ts.Getenv("PATH"), filepath.Join(work, "github-path")
	for _, s := range steps {
		if s.Run == "" && !strings.HasPrefix(s.Uses, "actions/checkout@") {
			ts.Fatalf("job %s uses %s", job, s.Uses)
		}
		if s.Run == "" || failed != nil && s.If != "always()" {
			continue
		}
		call := []string{"-u", "SSH_KEY", "PATH=" + paths, "GITHUB_PATH=" + added, "RUNNER_TEMP=" + work + "/temp",
			"GITHUB_STEP_SUMMARY=" + work + "/summary.md", "GITHUB_ACTION_PATH=" + work + "/ci"}
		for _, env := range []map[string]string{p.Env, s.Env} {
			for name, value := range env {
				call = append(call, name+"="+expression.ReplaceAllStringFunc(value, func(e string) string {
					v, ok := known[expression.FindStringSubmatch(e)[1]]
					if !ok {
						ts.Fatalf("the value of %s is not known here", e)
					}
					return v
				}))
			}
		}
		if err := ts.Exec("env", append(call, "bash", "-e", "-c", s.Run)...); err != nil && failed == nil {
			failed = err
		}
		if b, err := os.ReadFile(added); err == nil { // a step may add folders
			paths = strings.Join(strings.Fields(string(b)), ":") + ":" + paths
			ts.Check(os.Remove(added))
		}
	}
	return failed
}

// gitlab runs a job as a runner of GitLab does: a shell for what comes before and the job, and another one after it.
func gitlab(ts *testscript.TestScript, text []byte, job string) (failed error) {
	var all map[string]any
	ts.Check(yaml.Unmarshal(text, &all))
	decode := func(name string) (j gitlabJob) {
		b, err := yaml.Marshal(all[name])
		ts.Check(err)
		ts.Check(yaml.Unmarshal(b, &j))
		return j
	}
	j := decode(job)
	if len(j.Script) == 0 {
		ts.Fatalf("there is no job %s", job)
	}
	if j.Before == nil {
		j.Before = decode("default").Before
	}
	for _, lines := range [][]string{append(j.Before, j.Script...), j.After} {
		if len(lines) == 0 {
			continue
		}
		err := ts.Exec("env", "CI_PROJECT_DIR="+ts.Getenv("WORK"), "sh", "-e", "-c", strings.Join(lines, "\n"))
		if failed == nil {
			failed = err
		}
	}
	return failed
}
