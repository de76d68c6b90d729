package fleet

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"
	"unicode/utf8"

	"nodejoin/steps/kube"
)

//go:embed fleet.yaml.tmpl
var templateText string

// Render writes the objects as YAML. The same fleet gives the same bytes.
func (f *Fleet) Render(w io.Writer) error {
	t := template.New("fleet")
	t.Funcs(template.FuncMap{"json": quote, "word": word, "indent": func(by int, name string, data any) (string, error) {
		var b bytes.Buffer
		err := t.ExecuteTemplate(&b, name, data)
		pad := strings.Repeat(" ", by)
		return pad + strings.ReplaceAll(strings.Trim(b.String(), "\n"), "\n", "\n"+pad), err
	}})
	if _, err := t.Parse(templateText); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, view{Fleet: f}); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// view is what the template shows.
type view struct {
	*Fleet
	command string // of the pods
}

// Job is the view for a Job whose pods run a command.
func (v view) Job(command string) view { return view{v.Fleet, command} }

// Labels are those of all objects, and of the pods.
func (v view) Labels() string {
	return fmt.Sprintf("{app.kubernetes.io/managed-by: nodejoin, app.kubernetes.io/name: nodejoin-fleet, "+
		"app.kubernetes.io/instance: %s}", word(v.Name))
}

// Args are the arguments of the program in the pods.
func (v view) Args() (string, error) {
	args := []string{"fleet", "work", "--shards", fmt.Sprint(v.Shards), "--namespace", v.Namespace,
		"--kubeconfig", v.Own()}
	folder := planFolder
	if v.Packed != nil {
		args, folder = append(args, "--plan-image", v.Packed.Address()), homeFolder+"/plan"
	}
	args = append(args, "--", v.command)
	if v.Environment != "" {
		args = append(args, "--env", v.Environment)
	}
	return quote(append(args, folder))
}

// Own is the kubeconfig of the cluster that the pods run in.
func (v view) Own() string {
	if v.Other() {
		return homeFolder + "/.fleet/kubeconfig"
	}
	return v.Kubeconfig.At
}

// InPlan are the sources of the volume with the plan's folder.
func (v view) InPlan() bool { return len(v.Files)+len(v.Values) > 0 || v.Kubeconfig.InPlan != "" }

// KnownHosts is the file as a string of YAML.
func (v view) KnownHosts() (string, error) {
	if v.Options.KnownHosts == "" {
		return "", nil
	}
	return quote(v.Options.KnownHosts)
}

// Data are the files of the plan, as fields of a ConfigMap. What is not text is encoded.
func (v view) Data() (string, error) {
	text, binary := map[string]string{}, map[string]string{}
	for _, f := range v.Files {
		if utf8.Valid(f.Data) {
			text[f.Key] = string(f.Data)
		} else {
			binary[f.Key] = base64.StdEncoding.EncodeToString(f.Data)
		}
	}
	var out []string
	for _, part := range []struct {
		name string
		of   map[string]string
	}{{"data", text}, {"binaryData", binary}} {
		if len(part.of) == 0 {
			continue
		}
		b, err := json.MarshalIndent(part.of, "", "  ") // sorted, and YAML
		if err != nil {
			return "", err
		}
		out = append(out, part.name+": "+strings.TrimSuffix(escaped(string(b)), "}")+"  }")
	}
	return strings.Join(out, "\n"), nil
}

// Objects are what Render writes, the namespace first and the Job near the end.
func (f *Fleet) Objects() ([]kube.Manifest, error) {
	var b bytes.Buffer
	if err := f.Render(&b); err != nil {
		return nil, err
	}
	return kube.ParseManifests(b.String())
}

// secrets are the Secrets of the pods, where there is something to put into them.
func (f *Fleet) secrets(keys map[string][]byte) (out []kube.Manifest) {
	values := map[string][]byte{}
	for _, v := range f.Values {
		values[v.Key] = v.Data
	}
	other := map[string][]byte{}
	if f.Other() {
		other["kubeconfig"] = f.PodKubeconfig
	}
	for _, s := range []struct {
		name string
		data map[string][]byte
	}{{"ssh", keys}, {"values", values}, {"kubeconfig", other}} {
		if len(s.data) == 0 {
			continue
		}
		data := map[string]any{}
		for k, v := range s.data {
			data[k] = base64.StdEncoding.EncodeToString(v)
		}
		m := object("v1", "Secret", f.Namespace, f.Name+"-"+s.name)
		m.Object["data"] = data
		out = append(out, m)
	}
	return out
}
