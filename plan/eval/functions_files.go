package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// fileSet is fileset(PATH, PATTERN): the names of the files below PATH that match, relative to it.
func (sc *Scope) fileSet() function.Function {
	return function.New(&function.Spec{Params: text("path", "pattern"),
		Type: function.StaticReturnType(cty.Set(cty.String)),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			names, err := sc.Files.Glob(args[0].AsString(), args[1].AsString(), MaxElements)
			if err != nil {
				return cty.NilVal, err
			}
			if len(names) == 0 {
				return cty.SetValEmpty(cty.String), nil
			}
			var out []cty.Value
			for _, n := range names {
				out = append(out, cty.StringVal(n))
			}
			return cty.SetVal(out), nil
		}})
}

// pathExpand is pathexpand(PATH): "~/x" below the user's home folder.
func (sc *Scope) pathExpand() function.Function {
	return stringFunc(func(a []string) (string, error) {
		if a[0] != "~" && !strings.HasPrefix(a[0], "~/") {
			return a[0], nil
		}
		if sc.Files != nil && sc.Files.Confined {
			return "", errors.New("with --untrusted a plan cannot read the environment, where the home folder stands")
		}
		home, err := os.UserHomeDir()
		return home + strings.TrimPrefix(a[0], "~"), err
	}, "path")
}

func (sc *Scope) read(name string) (string, error) {
	f, ok := sc.texts[name]
	if !ok {
		f.text, f.err = sc.readFile(name)
		sc.texts[name] = f
	}
	return f.text, f.err
}

func (sc *Scope) readFile(name string) (string, error) {
	b, err := sc.Files.Read(sc.Files.Abs(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s does not exist; relative paths begin at the folder of the plan or module", name)
	}
	if err == nil && !utf8.Valid(b) {
		err = fmt.Errorf("%s is not UTF-8 text", name)
	}
	return string(b), err
}

func (sc *Scope) fileFunc() function.Function {
	return stringFunc(func(a []string) (string, error) { return sc.read(a[0]) }, "path")
}

func (sc *Scope) fileExists() function.Function {
	return function.New(&function.Spec{Params: text("path"), Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			fi, err := sc.Files.Stat(sc.Files.Abs(args[0].AsString()))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return cty.False, nil
			case err != nil:
				return cty.False, err
			}
			if fi.Mode().IsRegular() {
				sc.Files.Noted(sc.Files.Abs(args[0].AsString()))
			}
			return cty.BoolVal(fi.Mode().IsRegular()), nil
		}})
}
