package kinds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var fileKind = steps.Kind{Name: "file", Place: steps.OnHost, Image: true,
	Doc:  "a file with this content, written atomically, or its absence",
	Undo: map[record.Prefix]steps.Undo{record.File: filesUndo},
	Args: map[string]string{
		"access":     "\"private\": only the system and administrators; \"program\": executable on Linux",
		"checked_by": "program and arguments that must accept the content before the file has it; {} is a copy",
	},
	Fresh: func(step any) (a record.Ahead) {
		if f := step.(*File); !f.Absent && len(f.CheckedBy) == 0 {
			a = record.Ahead{Key: f.thing("").Key, SHA256: f.digest()}
		}
		return a
	},
	New: func() any { return &File{} }, Credentials: steps.Credentials((*File).credentials),
	Makes: steps.Makes((*File).thing), Secrets: steps.Secrets((*File).secrets), Render: steps.Renders((*File).rendered),
	Evidence: steps.Shows(func(f *File) []steps.Evidence {
		return []steps.Evidence{{File: f.Path, Secret: f.Sensitive}}
	})}

// File is a file with wanted content and access, or its absence.
type File struct {
	Path    string `json:"path" doc:"absolute path" id:"true" path:"true"`
	Content string `json:"content,omitempty" doc:"the whole content" present:"true" secret:"true"`

	Access    host.Access `json:"access,omitempty" choices:"private,program" present:"true"`
	Sensitive bool        `json:"sensitive,omitempty" doc:"never show the content in a diff" present:"true"`
	Absent    bool        `json:"absent,omitempty" doc:"the file must not exist"`
	// CheckedBy is the program and its arguments, of which CheckedFile stands for the path of a copy.
	CheckedBy []string `json:"checked_by,omitempty" with:"content" why:"there is no content to check"`
}

func (f *File) thing(string) steps.Thing {
	return steps.Thing{Key: record.File.Of(f.Path), Words: "the file " + f.Path}
}

func (f *File) secrets(shown func(string) string) {
	if f.Sensitive && f.Content != "" {
		f.Content = shown(f.Content)
	}
}

func (f *File) rendered(steps.RenderFor) (steps.Rendering, error) {
	if f.Absent {
		return steps.Rendering{List: "absent.json", Item: f.Path}, nil
	}
	r := steps.Rendering{Path: f.Path, Content: f.Content}
	if f.Sensitive {
		r.Content = steps.Hidden + "\n"
	}
	f.Content = ""
	return r, nil
}

func (f *File) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	have, err := host.ReadFile(ctx, r, f.Path, max(host.MaxText, len(f.Content)))
	switch {
	case errors.Is(err, host.ErrDirectory) && !f.Absent && goesBefore(e, record.Directory, f.Path):
		have = nil
	case err != nil:
		return steps.Change{}, err
	case have == nil && !f.Absent:
		if err := wayFree(ctx, r, e, f.Path); err != nil {
			return steps.Change{}, err
		}
	}
	step, made := e.Pending[steps.Touch{Path: f.Path}.Key(e.Facts.OS)]
	if digest, _ := e.FutureDigest(f.Path); f.Absent && have == nil && made && digest != steps.AbsentFile {
		have = &host.File{} // it will be there
		c := f.diff(have, e.Facts.OS)
		c.Reason = step + " makes it"
		return c, nil
	}
	if have != nil {
		have.Access = accessNow(e, record.File.Of(f.Path), have.Access, have.Writable)
	}
	c := f.diff(have, e.Facts.OS)
	if have != nil && f.closed(e, have) {
		c = c.HideDiff("content")
	}
	if have != nil {
		c = c.WrittenAt(have.ModTime)
	}
	return c, nil
}

// diff compares; have is nil when there is no file.
func (f *File) diff(have *host.File, os string) steps.Change {
	switch {
	case f.Absent && have == nil:
		return steps.Change{}
	case f.Absent:
		return steps.Change{Action: steps.ActionDelete, Touches: []steps.Touch{{Path: f.Path}},
			Digests: map[string]string{f.Path: steps.AbsentFile}}
	}
	c := steps.Change{Action: steps.ActionUpdate}
	if have == nil {
		c.Action = steps.ActionCreate
		have = &host.File{Access: f.Access}
		if f.Content == "" {
			c.Touches = []steps.Touch{{Path: f.Path}}
		}
	}
	if have.Truncated || string(have.Content) != f.Content {
		c.Diffs = append(c.Diffs, f.contentDiff(have))
		c.Touches = []steps.Touch{{Path: f.Path}}
	}
	c.Diffs = append(c.Diffs, accessDiff(os, have.Access, f.Access)...)
	if c.Action == steps.ActionUpdate && len(c.Diffs) == 0 {
		return steps.Change{}
	}
	if len(c.Touches) > 0 && !steps.HasRef(f.Content) && !f.Sensitive {
		c.Digests = map[string]string{f.Path: f.digest()}
	}
	return c
}

// closed reports whether the content that the file has on the host must not be shown: the file is closed to others, or
// becomes so, and nodejoin has not written it. What nodejoin wrote stands in the plan for all to read, unless it came
// from a sensitive value; a plan that no longer says so does not make that public.
func (f *File) closed(e *steps.Env, have *host.File) bool {
	c, ours := e.Record.Lookup(record.File.Of(f.Path))
	private := have.Access == host.AccessPrivate || f.Access == host.AccessPrivate
	return e.Record.Secret(e.Facts.OS, f.Path) || private && (!ours || c.Undone)
}

// contentDiff shows what differs, but nothing of a content that the plan keeps private, and of others it hides what
// looks like a secret. What the host keeps private Check hides.
func (f *File) contentDiff(have *host.File) steps.Diff {
	hidden := steps.Diff{Name: "content", Sensitive: true}
	switch {
	case f.Sensitive:
		return hidden
	case !have.Truncated && utf8.Valid(have.Content) && utf8.ValidString(f.Content):
		d := steps.Diff{Name: "content", Have: steps.Redact(string(have.Content), nil),
			Want: steps.Redact(f.Content, nil), Text: true}
		if d.Have == d.Want {
			return hidden // only the secrets differ
		}
		return d
	}
	return steps.Diff{Name: "content", Have: describe(have),
		Want: fmt.Sprintf("%d bytes, sha256 %s", len(f.Content), f.digest())}
}

// digest is the sha256 of the wanted content, in lower-case hex.
func (f *File) digest() string {
	sum := sha256.Sum256([]byte(f.Content))
	return hex.EncodeToString(sum[:])
}

func (f *File) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	have, err := host.ReadFile(ctx, h, f.Path, max(host.MaxText, len(f.Content)))
	if err != nil {
		return steps.Outcome{}, err
	}
	if len(f.CheckedBy) > 0 && !f.Absent && (have == nil || have.Truncated || string(have.Content) != f.Content) {
		check := contentCheck{path: f.Path, content: f.Content, command: f.CheckedBy, sensitive: f.Sensitive}
		if err := check.run(ctx, h, e); err != nil {
			return steps.Outcome{}, err
		}
	}
	if err := claimFile(ctx, h, e, f.Path, f.Sensitive); err != nil {
		return steps.Outcome{}, err
	}
	if f.Sensitive {
		if err := f.noteSecret(ctx, h, e, true); err != nil {
			return steps.Outcome{}, err
		}
	}
	if err := f.write(ctx, h, have); err != nil || f.Sensitive {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, f.noteSecret(ctx, h, e, false)
}

// noteSecret notes before a sensitive content is written, and after another one was, whether the file holds one: a
// plan that no longer says so does not make it public.
func (f *File) noteSecret(ctx context.Context, h host.Host, e *steps.Env, secret bool) error {
	if !e.Record.SetSecret(e.Facts.OS, f.Path, secret) {
		return nil
	}
	return e.Record.Save(ctx, h, e.Facts)
}

func (f *File) write(ctx context.Context, h host.Files, have *host.File) error {
	switch {
	case f.Absent:
		return h.Remove(ctx, f.Path)
	case have != nil && !have.Truncated && string(have.Content) == f.Content:
		return h.SetAccess(ctx, f.Path, f.Access)
	}
	return h.WriteFile(ctx, f.Path, strings.NewReader(f.Content), host.WriteOptions{Access: f.Access})
}

// describe is the size of a content that is not shown, with its digest where all of it was read.
func describe(f *host.File) string {
	if f.Truncated {
		return fmt.Sprintf("%d bytes", f.Size)
	}
	sum := sha256.Sum256(f.Content)
	return fmt.Sprintf("%d bytes, sha256 %s", f.Size, hex.EncodeToString(sum[:]))
}

// credentials is the CA, where the file is one.
func (f *File) credentials(ctx context.Context, r host.FilesReader, _ string) ([]steps.Credential, error) {
	if !strings.HasSuffix(f.Path, ".crt") || f.Absent {
		return nil, nil
	}
	text, err := textOf(ctx, r, f.Path)
	return certificateLife("CA", f.Path, text), err
}
