package kinds

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var envKind = steps.Kind{Name: "env", Place: steps.OnHost, Image: true,
	Doc: "a variable of the machine's environment, or its absence",
	Undo: map[record.Prefix]steps.Undo{
		record.Env: {Called: "variable", New: undoEnv, Early: always, Now: envNow},
		record.EnvFile: {Called: "file of variables", New: undoEnvFile, Removes: steps.RemovesItself,
			Snapshot: steps.SnapshotNew,
			Holds: func(_ *steps.Env, name string, key record.Key) bool {
				return key.Prefix == record.Env && strings.HasPrefix(key.Name, name+":")
			}},
	},
	New: func() any { return &MachineEnv{} },
	Render: steps.Renders(func(m *MachineEnv, _ steps.RenderFor) (steps.Rendering, error) {
		m.Value = steps.ShowCredentials(m.Value)
		return steps.Rendering{List: "environment.json", Item: m}, nil
	}),
	Evidence: steps.Shows(func(m *MachineEnv) []steps.Evidence {
		return []steps.Evidence{{Variable: m.Name, Secret: m.Sensitive}}
	}),
	Makes: steps.Makes((*MachineEnv).thing), Title: steps.Title((*MachineEnv).title),
	Secrets: steps.Secrets((*MachineEnv).secrets)}

// MachineEnv is one machine environment variable. On Linux it is a line of a file.
type MachineEnv struct {
	Name  string `json:"name" doc:"name of the variable" id:"true"`
	Value string `json:"value,omitempty" doc:"its value" present:"true" secret:"true"`
	File  string `json:"file,omitempty" doc:"Linux: the file of NAME=value lines, default /etc/environment" os:"linux"`
	// Sensitive: neither the value nor the one that is there is shown.
	Sensitive bool `json:"sensitive,omitempty" doc:"never show the value in a diff" present:"true"`
	Absent    bool `json:"absent,omitempty" doc:"the variable must not be set"`
}

func (m *MachineEnv) thing(os string) steps.Thing {
	return steps.Thing{Key: m.key(os), Words: "the variable " + m.Name}
}

// maxTitleValue bounds the value of a variable in its title, in characters.
const maxTitleValue = 60

// title is what the variable is set to, where that may be shown, and in which file.
func (m *MachineEnv) title() string {
	t := m.Name
	if m.Sensitive {
		return t
	}
	if m.Value != "" {
		v := []rune(steps.ShowRefs(steps.ShowCredentials(m.Value)))
		if len(v) > maxTitleValue {
			v = append(v[:maxTitleValue], []rune("...")...)
		}
		t += "=" + string(v)
	}
	if m.File != "" {
		t += " in " + m.File
	}
	return t
}

func (m *MachineEnv) secrets(shown func(string) string) {
	if m.Sensitive && m.Value != "" {
		m.Value = shown(m.Value)
	}
}

// defaultEnvFile is read by pam_env for every login on Linux, see environment(5).
const defaultEnvFile = "/etc/environment"

func (m *MachineEnv) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := m.validate(e.Facts.OS); err != nil {
		return steps.Change{}, err
	}
	have, _, err := m.read(ctx, r, e.Facts.OS)
	if err != nil {
		return steps.Change{}, err
	}
	c := m.diff(have)
	if !c.NoOp() && e.Facts.OS != "windows" {
		c.Touches = []steps.Touch{{Path: m.file()}}
	}
	return c, nil
}

func (m *MachineEnv) validate(os string) error {
	switch {
	case m.Name == "" || strings.ContainsAny(m.Name, "=\r\n\t #\""):
		return steps.Invalid("%q cannot be the name of a variable", m.Name)
	case m.File != "" && os == "windows":
		return steps.Invalid("variable %s: file is for Linux; Windows keeps its environment in the registry", m.Name)
	case m.Absent && m.Value != "":
		return steps.Invalid("variable %s is to be absent, so it takes no value", m.Name)
	case os != "windows" && strings.ContainsAny(m.Value, "\r\n"):
		return steps.Invalid("variable %s: a value in a file of lines cannot hold a line break", m.Name)
	}
	return nil
}

func (m *MachineEnv) file() string { return cmp.Or(m.File, defaultEnvFile) }

func (m *MachineEnv) key(os string) record.Key {
	if os == "windows" {
		return record.EnvKey("", m.Name)
	}
	return record.EnvKey(m.file(), m.Name)
}

// read returns every value of the variable (a file may hold several) and, on Linux, the file.
func (m *MachineEnv) read(ctx context.Context, r host.Reader, os string) ([]string, *host.File, error) {
	if os != "windows" {
		f, err := host.ReadFile(ctx, r, m.file(), host.MaxText)
		if err != nil || f == nil {
			return nil, nil, err
		}
		if f.Truncated {
			return nil, nil, steps.Invalid("%s is larger than a file of variables can be", m.file())
		}
		return envValues(string(f.Content), m.Name), f, nil
	}
	v, err := r.MachineEnv(ctx, m.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	return []string{v}, nil, err
}

func (m *MachineEnv) diff(have []string) steps.Change {
	var shown []string
	for _, v := range have {
		shown = append(shown, steps.ShowCredentials(v))
	}
	d := steps.Diff{Name: "value", Have: strings.Join(shown, ", then "), Want: steps.ShowCredentials(m.Value)}
	if m.Sensitive {
		d = steps.Diff{Name: "value", Sensitive: true}
	}
	switch {
	case m.Absent && len(have) == 0:
		return steps.Change{}
	case m.Absent:
		return steps.Change{Action: steps.ActionDelete, Diffs: []steps.Diff{d}}
	case len(have) == 0:
		return steps.Change{Action: steps.ActionCreate, Diffs: []steps.Diff{d}}
	case len(have) == 1 && have[0] == m.Value:
		return steps.Change{}
	}
	return steps.Change{Action: steps.ActionUpdate, Diffs: []steps.Diff{d}}
}

func (m *MachineEnv) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	have, file, err := m.read(ctx, h, e.Facts.OS)
	if err != nil {
		return steps.Outcome{}, err
	}
	own := record.New{Key: m.key(e.Facts.OS), Detail: m.Name}
	var claims []record.New
	if len(have) > 0 {
		own.Previous = have[len(have)-1]
	}
	if e.Facts.OS != "windows" {
		if file == nil {
			if claims, err = e.Parents(ctx, h, m.file()); err != nil {
				return steps.Outcome{}, err
			}
			claims = append(claims, record.New{Key: record.EnvFile.Of(m.file())})
		} else if len(have) > 0 {
			own.Previous = envLines(string(file.Content), m.Name)
		}
	}
	if err := e.Claim(ctx, h, append(claims, own)...); err != nil {
		return steps.Outcome{}, err
	}
	switch {
	case e.Facts.OS == "windows" && m.Absent:
		return steps.Outcome{}, h.UnsetMachineEnv(ctx, m.Name)
	case e.Facts.OS == "windows":
		return steps.Outcome{}, h.SetMachineEnv(ctx, m.Name, m.Value)
	}
	if file == nil {
		file = &host.File{}
	}
	text := setEnvLine(string(file.Content), m.Name, m.Value, m.Absent)
	return steps.Outcome{}, h.WriteFile(ctx, m.file(), strings.NewReader(text), host.WriteOptions{Access: file.Access})
}

// envLines returns the lines of name as they are written.
func envLines(text, name string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if _, ok := envLine(line, name); ok {
			out.WriteString(strings.TrimRight(line, "\r\n") + "\n")
		}
	}
	return out.String()
}

// envValues returns the values of name in a text of NAME=value lines, with the
// quotes and the "export" that environment files may carry taken off.
func envValues(text, name string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if v, ok := envLine(line, name); ok {
			out = append(out, v)
		}
	}
	return out
}

func envLine(line, name string) (value string, ok bool) {
	line = strings.TrimSpace(line)
	if rest, found := strings.CutPrefix(line, "export "); found {
		line = strings.TrimLeft(rest, " \t")
	}
	key, value, ok := strings.Cut(line, "=")
	if !ok || key != name {
		return "", false
	}
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		value = value[1 : n-1]
	}
	return value, true
}

// setEnvLine puts the variable where its first line was, or at the end; other
// lines are kept as they are.
func setEnvLine(text, name, value string, absent bool) string {
	insert := ""
	if !absent {
		insert = name + "=" + value + "\n"
	}
	return replaceEnvLines(text, name, insert)
}

// replaceEnvLines puts insert, whole lines or nothing, where the first line of name
// was, or at the end; the other lines of name go.
func replaceEnvLines(text, name, insert string) string {
	lines := slices.Collect(strings.Lines(text))
	out := make([]string, 0, len(lines)+1)
	done := insert == ""
	for _, line := range lines {
		if _, ok := envLine(line, name); !ok {
			out = append(out, line)
		} else if !done {
			out = append(out, insert)
			done = true
		}
	}
	if !done {
		if n := len(out); n > 0 && !strings.HasSuffix(out[n-1], "\n") {
			out[n-1] += "\n"
		}
		out = append(out, insert)
	}
	return strings.Join(out, "")
}

// envNow is the variable as it is in a claim: its value, on Linux whole lines of its file.
func envNow(ctx context.Context, r host.Reader, e *steps.Env, key record.Key, claim record.Claim) (any, error) {
	m := &MachineEnv{Name: claim.Detail, File: key.EnvPath(claim.Detail)}
	have, f, err := m.read(ctx, r, e.Facts.OS)
	if err != nil || len(have) == 0 {
		return nil, err
	}
	if f != nil {
		return envLines(string(f.Content), m.Name), nil
	}
	return have[0], nil
}

// lines are those of the variable in its file; f = nil: there is no file.
func (m *MachineEnv) lines(ctx context.Context, r host.Reader, os string) (have string, f *host.File, err error) {
	_, f, err = m.read(ctx, r, os)
	if f != nil {
		have = envLines(string(f.Content), m.Name)
	}
	return have, f, err
}

// undoEnv: Detail holds the name of the variable. The earlier state is the value, on
// Linux whole lines of its file.
func undoEnv(key record.Key, claim record.Claim) (steps.Undoing, error) {
	want, err := record.Previous[string](claim)
	m := &MachineEnv{Name: claim.Detail, File: key.EnvPath(claim.Detail)}
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			var differs bool
			if m.File != "" {
				have, _, err := m.lines(ctx, r, e.Facts.OS)
				if err != nil {
					return steps.Change{}, "", err
				}
				temps, err := tempsOf(ctx, r, m.File)
				if err != nil {
					return steps.Change{}, "", err
				}
				differs = have != want || len(temps) > 0
			} else {
				have, _, err := m.read(ctx, r, e.Facts.OS)
				if err != nil {
					return steps.Change{}, "", err
				}
				differs = claim.Existed != (len(have) > 0) || claim.Existed && have[0] != want
			}
			switch {
			case !differs:
				return steps.Change{}, "", nil
			case claim.Existed:
				return steps.Restored(), "", nil
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, e *steps.Env) error {
			switch {
			case m.File != "":
				if err := removeTemps(ctx, h, m.File); err != nil {
					return err
				}
				have, f, err := m.lines(ctx, h, e.Facts.OS)
				if err != nil || have == want {
					return err
				}
				if f == nil {
					f = &host.File{}
				}
				return h.WriteFile(ctx, m.File, strings.NewReader(replaceEnvLines(string(f.Content), m.Name, want)),
					host.WriteOptions{Access: f.Access})
			case claim.Existed:
				return h.SetMachineEnv(ctx, m.Name, want)
			}
			return h.UnsetMachineEnv(ctx, m.Name)
		},
	}, err
}

// undoEnvFile removes a file of variables that nodejoin made, once it holds nothing.
func undoEnvFile(key record.Key, _ record.Claim) (steps.Undoing, error) {
	path := key.Name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			f, err := host.ReadFile(ctx, r, path, host.MaxText)
			switch {
			case err != nil || f == nil:
				return steps.Change{}, "", err
			case len(f.Content) > 0:
				return steps.Change{}, "it holds other variables", nil
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error { return h.Remove(ctx, path) },
	}, nil
}
