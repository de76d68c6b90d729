package kinds

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
	"nodejoin/steps/record"
)

var kubeconfigKind = steps.Kind{Name: "kubeconfig", Place: steps.OnHost,
	Doc:  "a kubeconfig with a token, or the path of a file that has one, private to the system",
	Undo: map[record.Prefix]steps.Undo{record.Backup: backupUndo},
	Args: map[string]string{
		"unless": "not needed while this kubeconfig holds a valid client certificate for the server",
		"backup": "credentials that would be used instead of it and are no longer valid; they are renamed before the " +
			"file is written, and leave restores them",
	},
	New: func() any { return &Kubeconfig{} }, Credentials: steps.Credentials((*Kubeconfig).credentials),
	Makes: steps.Makes((*Kubeconfig).thing), Claims: steps.Claims((*Kubeconfig).claims),
	Secrets: steps.Secrets((*Kubeconfig).secrets), Render: steps.Renders((*Kubeconfig).rendered),
	Evidence: steps.Shows(func(k *Kubeconfig) []steps.Evidence {
		return []steps.Evidence{{File: k.Path}, {File: k.Unless}}
	})}

// Kubeconfig is a kubeconfig file that carries a token. It is in order when server
// and CA are as wanted and the credential still holds: with Unless, when that
// kubeconfig (of the kubelet, client certificate) is usable the file is not needed
// at all; otherwise when the token in the file is a JWT that is valid for longer
// than RenewBefore. While Token is not known the token in the file is judged alone.
//
// A kubelet does not look at its bootstrap credential while kubelet.conf and its
// certificate have not expired, whoever signed them and for whatever name (kubernetes
// pkg/kubelet/certificate/bootstrap, isClientConfigStillValid): Backup names them.
//
// A program reads its bootstrap credential once, at its start: Services are stopped,
// dependents first, before a file that they would have to read again is written.
// Their service steps start them.
type Kubeconfig struct {
	Path        string   `json:"path" doc:"absolute path" id:"true" path:"true"`
	Server      string   `json:"server" doc:"URL of the API server"`
	CA          string   `json:"ca" doc:"PEM of the cluster's CA"`
	User        string   `json:"user" doc:"name of the user entry"`
	Token       string   `json:"token,omitempty" doc:"bearer token"` // or kube.BootstrapToken
	TokenFile   string   `json:"token_file,omitempty" doc:"file with the token, instead of token" path:"true"`
	Unless      string   `json:"unless,omitempty" path:"true"`
	RenewBefore string   `json:"renew_before,omitempty" doc:"renew the token this long before it ends, default 168h"`
	Services    []string `json:"services,omitempty" doc:"services to stop before the file is replaced"`
	Backup      []string `json:"backup,omitempty" path:"true"`
}

const (
	// renewBefore is the default of RenewBefore.
	renewBefore = 7 * 24 * time.Hour
	// certMargin is the life that a client certificate must have left, so that the
	// kubelet can still use it to ask for the next one.
	certMargin = 5 * time.Minute
	// clusterName names the one cluster and context of the files that are written.
	clusterName = "default"
)

// clientCertificate is the file of its folder of certificates in which the kubelet keeps
// its client certificate, a link where the system has them (client-go
// util/certificate/certificate_store.go).
const clientCertificate = "kubelet-client-current.pem"

// kubeFile is the part of a kubeconfig (client-go tools/clientcmd/api/v1) that counts here.
type kubeFile struct {
	APIVersion     string        `json:"apiVersion"`
	Kind           string        `json:"kind"`
	Clusters       []kubeCluster `json:"clusters"`
	Users          []kubeUser    `json:"users"`
	Contexts       []kubeContext `json:"contexts"`
	CurrentContext string        `json:"current-context"`
}

type kubeCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data,omitempty"` // base64 in the file
	} `json:"cluster"`
}

type kubeUser struct {
	Name string     `json:"name"`
	User kubeSecret `json:"user"`
}

type kubeSecret struct {
	Token    string `json:"token,omitempty"`
	File     string `json:"tokenFile,omitempty"`
	CertData []byte `json:"client-certificate-data,omitempty"`
	KeyData  []byte `json:"client-key-data,omitempty"`
	CertFile string `json:"client-certificate,omitempty"`
	KeyFile  string `json:"client-key,omitempty"`
}

// same compares what is in a file itself.
func (s kubeSecret) same(o kubeSecret) bool {
	return s.Token == o.Token && bytes.Equal(s.CertData, o.CertData) && bytes.Equal(s.KeyData, o.KeyData)
}

type kubeContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// kubeEntry is what the current context of a kubeconfig names.
type kubeEntry struct {
	server, user string
	ca           []byte
	secret       kubeSecret
}

func parseKubeconfig(b []byte) (kubeEntry, error) {
	var f kubeFile
	if err := yaml.Unmarshal(b, &f); err != nil {
		return kubeEntry{}, err
	}
	i := slices.IndexFunc(f.Contexts, func(c kubeContext) bool { return c.Name == f.CurrentContext })
	if i < 0 {
		return kubeEntry{}, fmt.Errorf("its current context %q is not in it", f.CurrentContext)
	}
	at := f.Contexts[i].Context
	ci := slices.IndexFunc(f.Clusters, func(c kubeCluster) bool { return c.Name == at.Cluster })
	ui := slices.IndexFunc(f.Users, func(u kubeUser) bool { return u.Name == at.User })
	if ci < 0 || ui < 0 {
		return kubeEntry{}, fmt.Errorf("its context %q names a cluster or user that is not in it", f.CurrentContext)
	}
	return kubeEntry{server: f.Clusters[ci].Cluster.Server, ca: f.Clusters[ci].Cluster.CA, user: at.User,
		secret: f.Users[ui].User}, nil
}

// render is the file as it is written.
func (k *Kubeconfig) render() ([]byte, error) {
	f := kubeFile{APIVersion: "v1", Kind: "Config", CurrentContext: clusterName}
	c := kubeCluster{Name: clusterName}
	c.Cluster.Server, c.Cluster.CA = k.Server, []byte(k.CA)
	x := kubeContext{Name: clusterName}
	x.Context.Cluster, x.Context.User = clusterName, k.User
	f.Clusters, f.Contexts = []kubeCluster{c}, []kubeContext{x}
	f.Users = []kubeUser{{Name: k.User, User: k.secret()}}
	return yaml.Marshal(f)
}

// secret is what the user authenticates with.
func (k *Kubeconfig) secret() kubeSecret {
	if s, ok := certificateOf(k.Token); ok {
		return s
	}
	return kubeSecret{Token: k.Token, File: k.TokenFile}
}

// certificateOf is the client certificate in the output of a step bootstrap_token, if it has one.
func certificateOf(token string) (kubeSecret, bool) {
	cert, key := kube.ParseBootstrapToken(token).Pair()
	return kubeSecret{CertData: cert, KeyData: key}, cert != nil
}

func (k *Kubeconfig) rendered(steps.RenderFor) (steps.Rendering, error) {
	shown := *k
	shown.Server, shown.User, shown.Token = steps.ShowRefs(k.Server), steps.ShowRefs(k.User), steps.ShowRefs(k.Token)
	text, err := shown.render()
	if steps.HasRef(k.CA) { // which is base64 in the file
		ca := base64.StdEncoding.EncodeToString([]byte(k.CA))
		text = bytes.ReplaceAll(text, []byte(ca), []byte(steps.ShowRefs(k.CA)))
	}
	return steps.Rendering{Path: k.Path, Content: string(text)}, err
}

func (k *Kubeconfig) thing(string) steps.Thing {
	return steps.Thing{Key: record.File.Of(k.Path), Words: "the file " + k.Path}
}

func (k *Kubeconfig) claims(*steps.Env) []record.Key {
	out := []record.Key{record.File.Of(k.Path)}
	for _, path := range k.Backup {
		out = append(out, record.Backup.Of(path))
	}
	return out
}

func (k *Kubeconfig) secrets(shown func(string) string) { k.Token = hideToken(k.Token, shown) }

func (k *Kubeconfig) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	renew, err := k.validate()
	if err != nil {
		return steps.Change{}, err
	}
	now := time.Now()
	reason := ""
	if k.Unless != "" {
		reason, err = clientConfig{path: k.Unless, server: k.Server, ca: k.CA}.unusable(ctx, r, e, now)
		if err != nil || reason == "" {
			return steps.Change{}, err
		}
	}
	have, err := host.ReadFile(ctx, r, k.Path, host.MaxText)
	if err != nil {
		return steps.Change{}, err
	}
	c := k.diff(have, now, renew)
	replaced := !c.NoOp() // and not only given another access
	if have != nil {
		c.Diffs = append(c.Diffs, accessDiff(e.Facts.OS, have.Access, host.AccessPrivate)...)
	}
	if len(c.Diffs) == 0 {
		return steps.Change{}, nil
	}
	c.Action, c.Reason = cmp.Or(c.Action, steps.ActionUpdate), cmp.Or(c.Reason, reason)
	c.Touches = []steps.Touch{{Path: k.Path}}
	if replaced {
		err = k.replaces(ctx, r, &c)
	}
	return c, err
}

// validate checks the arguments, and gives the life that a token in the file must have left.
func (k *Kubeconfig) validate() (renew time.Duration, err error) {
	renew = renewBefore
	if k.RenewBefore != "" {
		if renew, err = time.ParseDuration(k.RenewBefore); err != nil || renew < 0 {
			return 0, steps.Invalid("renew_before %q is not a duration such as 168h", k.RenewBefore)
		}
	}
	if k.User == "" || k.Server == "" {
		return 0, steps.Invalid("kubeconfig %s needs a server and a user", k.Path)
	}
	if (k.Token == "") == (k.TokenFile == "") {
		return 0, steps.Invalid("kubeconfig %s needs a token or a token_file", k.Path)
	}
	return renew, nil
}

// replaces adds what a new content of the file means for others: Services stop, and what
// there is of Backup is renamed.
func (k *Kubeconfig) replaces(ctx context.Context, r host.FilesReader, c *steps.Change) error {
	for _, s := range k.Services {
		c.Touches = append(c.Touches, steps.Touch{Service: s})
	}
	for _, p := range k.Backup {
		there, err := host.Exists(ctx, r, p)
		if err != nil {
			return err
		}
		if there {
			c.Diffs = append(c.Diffs, steps.Diff{Name: "backup", Have: p})
			c.Touches = append(c.Touches, steps.Touch{Path: p})
		}
	}
	return nil
}

// diff compares the content; have is nil when there is no file.
func (k *Kubeconfig) diff(have *host.File, now time.Time, renew time.Duration) steps.Change {
	token := steps.Diff{Name: "token", Sensitive: true}
	if k.TokenFile != "" {
		token = steps.Diff{Name: "token_file", Want: k.TokenFile}
	}
	whole := []steps.Diff{{Name: "server", Want: k.Server}, {Name: "user", Want: k.User}, token}
	if have == nil {
		return steps.Change{Action: steps.ActionCreate, Diffs: whole}
	}
	f, err := parseKubeconfig(have.Content)
	if err != nil || have.Truncated {
		return steps.Change{Action: steps.ActionUpdate, Reason: "what is there is not a usable kubeconfig", Diffs: whole}
	}
	c := steps.Change{Action: steps.ActionUpdate}
	if f.server != k.Server {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "server", Have: f.server, Want: k.Server})
	}
	if !samePEM(f.ca, []byte(k.CA)) {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "ca", Have: certText(f.ca), Want: certText([]byte(k.CA))})
	}
	if f.user != k.User {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "user", Have: f.user, Want: k.User})
	}
	switch {
	case k.TokenFile != "":
		if f.secret.File != k.TokenFile || f.secret.Token != "" {
			c.Diffs = append(c.Diffs, steps.Diff{Name: "token_file", Have: f.secret.File, Want: k.TokenFile})
		}
	case steps.HasRef(k.Token):
		if why := tokenEnds(f.secret.Token, now, renew); why != "" {
			c.Diffs, c.Reason = append(c.Diffs, token), why
		}
	case !f.secret.same(k.secret()):
		c.Diffs = append(c.Diffs, token)
	}
	if len(c.Diffs) == 0 {
		return steps.Change{}
	}
	return c
}

// samePEM compares the certificates of two PEM texts.
func samePEM(a, b []byte) bool {
	ca, cb := host.Certificates(a), host.Certificates(b)
	return len(ca) > 0 && slices.EqualFunc(ca, cb, bytes.Equal) || bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
}

// certText describes a CA for people.
func certText(b []byte) string {
	if steps.HasRef(string(b)) {
		return string(b)
	}
	all := host.Certificates(b)
	if len(all) == 0 {
		return "none"
	}
	c, err := x509.ParseCertificate(all[0])
	if err != nil {
		return "a certificate that cannot be read"
	}
	return fmt.Sprintf("%s, serial %x", c.Subject, c.SerialNumber)
}

// clientConfig is a kubeconfig with the client certificate of the node, as the
// kubelet keeps it. The CA may be a reference, which is then not compared; server ""
// is not compared either.
type clientConfig struct{ path, server, ca string }

// unusable says why the kubeconfig cannot be used, "" if it can.
func (k clientConfig) unusable(ctx context.Context, r host.Reader, e *steps.Env, now time.Time) (string, error) {
	file, err := host.ReadFile(ctx, r, k.path, host.MaxText)
	if err != nil {
		return "", err
	}
	if file == nil {
		return k.path + " does not exist", nil
	}
	f, err := parseKubeconfig(file.Content)
	if err != nil {
		return fmt.Sprintf("%s cannot be read as a kubeconfig: %v", k.path, err), nil
	}
	if k.server != "" && strings.TrimRight(f.server, "/") != strings.TrimRight(k.server, "/") {
		return fmt.Sprintf("%s is for %s", k.path, f.server), nil
	}
	if k.server == "" && len(f.ca) == 0 {
		return k.path + " names no CA of a cluster", nil
	}
	if len(f.ca) > 0 && !steps.HasRef(k.ca) && !samePEM(f.ca, []byte(k.ca)) {
		return k.path + " is for a cluster with another CA", nil
	}
	cert, key := f.secret.CertData, f.secret.KeyData
	for _, p := range []struct {
		data *[]byte
		path string
	}{{&cert, f.secret.CertFile}, {&key, f.secret.KeyFile}} {
		if len(*p.data) > 0 || p.path == "" {
			continue
		}
		path := besides(e.Facts.OS, k.path, p.path)
		pf, err := host.ReadFile(ctx, r, path, host.MaxText)
		if err != nil {
			return "", err
		}
		if pf == nil {
			return path + " does not exist", nil
		}
		*p.data = pf.Content
	}
	if why := badCert(cert, key, e.Node, now); why != "" {
		return "the client certificate of " + k.path + " " + why, nil
	}
	return "", nil
}

// badCert says why a client certificate and its key (each PEM; one text may hold
// both, as the kubelet writes them) cannot be used by the node, "" if they can.
func badCert(cert, key []byte, node string, now time.Time) string {
	all := host.Certificates(cert)
	if len(all) == 0 {
		return "is missing"
	}
	c, err := x509.ParseCertificate(all[0])
	name := ""
	if err == nil {
		name = strings.TrimPrefix(c.Subject.CommonName, "system:node:")
	}
	switch {
	case err != nil:
		return fmt.Sprintf("cannot be read: %v", err)
	case !hasKey(key) && !hasKey(cert):
		return "has no key"
	case now.Add(certMargin).After(c.NotAfter):
		return "ended or ends at " + c.NotAfter.UTC().Format(time.RFC3339)
	case node != "" && name != c.Subject.CommonName && name != node:
		return "is that of node " + name
	}
	return ""
}

func hasKey(b []byte) bool {
	for p, rest := pem.Decode(b); p != nil; p, rest = pem.Decode(rest) {
		if strings.HasSuffix(p.Type, "PRIVATE KEY") {
			return true
		}
	}
	return false
}

// besides is a path named in a file: relative to the file's folder, and on Windows
// without a drive on the file's drive.
func besides(os, file, path string) string {
	if os != "windows" {
		if strings.HasPrefix(path, "/") {
			return path
		}
		return host.Join(os, host.Dir(os, file), path)
	}
	path = strings.ReplaceAll(path, "/", `\`)
	switch {
	case len(path) > 1 && path[1] == ':', strings.HasPrefix(path, `\\`):
		return path
	case strings.HasPrefix(path, `\`) && len(file) > 1 && file[1] == ':':
		return file[:2] + path
	}
	return host.Join(os, host.Dir(os, file), path)
}

func (k *Kubeconfig) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	if len(host.Certificates([]byte(k.CA))) == 0 {
		return steps.Outcome{}, steps.Invalid("the CA for kubeconfig %s is not a PEM certificate", k.Path)
	}
	if err := claimFile(ctx, h, e, k.Path, true); err != nil {
		return steps.Outcome{}, err
	}
	b, err := k.render()
	if err != nil {
		return steps.Outcome{}, err
	}
	for _, s := range k.Services {
		if !slices.Contains(c.Touches, steps.Touch{Service: s}) {
			continue
		}
		if err := stopService(ctx, h, e, s); err != nil {
			return steps.Outcome{}, err
		}
	}
	for _, p := range k.Backup {
		if slices.Contains(c.Touches, steps.Touch{Path: p}) {
			if err := backUp(ctx, h, e, p); err != nil {
				return steps.Outcome{}, err
			}
		}
	}
	return steps.Outcome{}, h.WriteFile(ctx, k.Path, bytes.NewReader(b), host.WriteOptions{Access: host.AccessPrivate})
}

// credentials is the token in the kubeconfig itself.
func (k *Kubeconfig) credentials(ctx context.Context, r host.FilesReader, _ string) ([]steps.Credential, error) {
	text, err := textOf(ctx, r, k.Path)
	if f, wrong := parseKubeconfig([]byte(text)); wrong == nil {
		return tokenLife(k.Path, f.secret.Token), err
	}
	return nil, err
}
