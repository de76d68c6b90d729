package plan

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
)

// rightForm says what to write instead of credentials that can do more than a node's.
const rightForm = "Let each node get its own: join \"bootstrap_token\" {}. Or give a folder of kubeconfigs, each " +
	"made with: kubeadm kubeconfig user --client-name system:node:NAME --org system:nodes"

// Groups whose members may do everything in a cluster: system:masters by itself,
// kubeadm:cluster-admins by what kubeadm binds to it since 1.29
// (kubernetes cmd/kubeadm/app/constants).
var adminGroups = []string{"system:masters", "kubeadm:cluster-admins"}

// kubeconfigFile is the part of a kubeconfig (client-go tools/clientcmd/api/v1) that a
// node can use.
type kubeconfigFile struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Clusters   []struct {
		Name    string         `json:"name"`
		Cluster kubeconfigHead `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string         `json:"name"`
		User kubeconfigUser `json:"user"`
	} `json:"users"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	CurrentContext string `json:"current-context"`
}

type kubeconfigHead struct {
	Server string `json:"server"`
	CA     []byte `json:"certificate-authority-data,omitempty"` // base64 in the file
	CAFile string `json:"certificate-authority,omitempty"`
}

type kubeconfigUser struct {
	Cert      []byte `json:"client-certificate-data,omitempty"`
	CertFile  string `json:"client-certificate,omitempty"`
	Key       []byte `json:"client-key-data,omitempty"`
	KeyFile   string `json:"client-key,omitempty"`
	Token     string `json:"token,omitempty"`
	TokenFile string `json:"tokenFile,omitempty"`
}

// nodeKubeconfig reads the kubeconfig for a node's kubelet and rewrites it for the node: one
// context, every credential inside, the address of the API server that nodes use.
func (c *compiler) nodeKubeconfig(m *block.Machine, j *recipe.Join) bool {
	g := c.Cluster.JoinFile
	path := g.Path
	if g.Folder {
		path = filepath.Join(path, m.Name+".conf")
	}
	src, err := c.Files.ReadOwn(path)
	if err != nil {
		c.FailOn(m.Name, g.S.At("path"), "unreadable kubeconfig", "The kubeconfig for node %q cannot be read: %v.", m.Name,
			err)
		return false
	}
	var f kubeconfigFile
	wrong := func(why string) bool {
		c.FailOn(m.Name, g.S.At("path"), "unusable kubeconfig", "%s cannot be put on node %q: %s.", path, m.Name, why)
		return false
	}
	if err := yaml.Unmarshal(src, &f); err != nil {
		return wrong("it is not a kubeconfig") // the parser's error could quote a secret
	}
	head, user, why := f.current()
	if why != "" {
		return wrong(why)
	}
	if why := c.inline(filepath.Dir(path), &head, &user); why != "" {
		return wrong(why)
	}
	ca, _ := pem.Decode(head.CA)
	switch {
	case ca == nil || ca.Type != "CERTIFICATE":
		return wrong("it has no CA certificate (certificate-authority-data), so the node could not verify the API server")
	case len(user.Cert) == 0 && user.Token == "":
		return wrong("its user has neither a client certificate nor a token; a kubelet cannot use a password, a " +
			"plugin or a login of the controller")
	}
	if len(user.Cert) > 0 {
		user.Token = ""
		if !c.nodeCertificate(m, path, user) {
			return false
		}
	} else {
		c.notOwn(path, "a token whose user is not known")
	}
	j.Certificate = len(user.Cert) > 0
	out := kubeconfigFile{APIVersion: "v1", Kind: "Config", CurrentContext: "default"}
	head.Server = c.Cluster.APIServer
	out.Clusters = append(out.Clusters, f.Clusters[0])
	out.Users = append(out.Users, f.Users[0])
	out.Contexts = append(out.Contexts, f.Contexts[0])
	out.Clusters[0].Name, out.Clusters[0].Cluster = "default", head
	out.Users[0].Name, out.Users[0].User = "kubelet", user
	out.Contexts[0].Name = "default"
	out.Contexts[0].Context.Cluster, out.Contexts[0].Context.User = "default", "kubelet"
	text, err := yaml.Marshal(out)
	j.Kubeconfig = string(text)
	return err == nil
}

// current returns the cluster and user of the file's current context; why says what is missing.
func (f *kubeconfigFile) current() (head kubeconfigHead, user kubeconfigUser, why string) {
	for _, x := range f.Contexts {
		if x.Name != f.CurrentContext {
			continue
		}
		found := 0
		for _, k := range f.Clusters {
			if k.Name == x.Context.Cluster {
				head, found = k.Cluster, found|1
			}
		}
		for _, u := range f.Users {
			if u.Name == x.Context.User {
				user, found = u.User, found|2
			}
		}
		if found != 3 {
			return head, user, "its current context names a cluster or user that is not in it"
		}
		return head, user, ""
	}
	return head, user, "its current context is not in it"
}

// inline replaces the file names in a kubeconfig by the files' contents: their paths do not
// exist on a node.
func (c *compiler) inline(dir string, head *kubeconfigHead, user *kubeconfigUser) (why string) {
	token := []byte(user.Token)
	for _, p := range []struct {
		data *[]byte
		path *string
		what string
	}{{&head.CA, &head.CAFile, "CA"}, {&user.Cert, &user.CertFile, "client certificate"}, {&user.Key, &user.KeyFile,
		"client key"}, {&token, &user.TokenFile, "token"}} {
		path := *p.path
		*p.path = ""
		if len(*p.data) > 0 || path == "" {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		src, err := c.Files.ReadOwn(path)
		if err != nil {
			return "its " + p.what + " cannot be read: " + err.Error()
		}
		*p.data = src
	}
	user.Token = string(bytes.TrimSpace(token))
	return ""
}

// nodeCertificate checks a client certificate for a node.
func (c *compiler) nodeCertificate(m *block.Machine, path string, user kubeconfigUser) bool {
	at := c.Cluster.JoinFile.S.At("path")
	b, _ := pem.Decode(user.Cert)
	var cert *x509.Certificate
	err := error(nil)
	if b != nil {
		cert, err = x509.ParseCertificate(b.Bytes)
	}
	if b == nil || err != nil || !bytes.Contains(user.Key, []byte("PRIVATE KEY")) {
		c.FailOn(m.Name, at, "unusable kubeconfig",
			"%s cannot be put on node %q: its client certificate or the key of it cannot be read.", path, m.Name)
		return false
	}
	name, isNode := strings.CutPrefix(cert.Subject.CommonName, block.NodeUser)
	switch {
	case time.Now().After(cert.NotAfter):
		c.FailOn(m.Name, at, "credentials have expired", "The client certificate of %s expired at %s. Make a new one, or "+
			"let nodes get their own: join \"bootstrap_token\" {}.", path, cert.NotAfter.UTC().Format(time.RFC3339))
		return false
	case isNode && name != m.Name:
		c.FailOn(m.Name, at, "credentials of another node", "%s is the kubeconfig of node %q, and node %q would get it: "+
			"the API server lets it write to no other Node. Give a folder that holds one for each node, NAME.conf.", path, name,
			m.Name)
		return false
	case isNode && slices.Contains(cert.Subject.Organization, block.NodeGroup):
		return true
	}
	for _, g := range adminGroups {
		if slices.Contains(cert.Subject.Organization, g) {
			if !c.Cluster.JoinFile.Warned[path] {
				c.Cluster.JoinFile.Warned[path] = true
				c.Warn(at, "administrator's credentials on nodes", "%s is the kubeconfig of %q in the group %s. Whoever "+
					"reads it on a node controls the cluster, and it cannot be revoked before %s. %s.",
					path, cert.Subject.CommonName, g, cert.NotAfter.UTC().Format(time.DateOnly), rightForm)
			}
			return true
		}
	}
	c.notOwn(path, "the certificate of user "+strconv.Quote(cert.Subject.CommonName))
	return true
}

// notOwn warns once of credentials that are not a node's.
func (c *compiler) notOwn(path, what string) {
	g := c.Cluster.JoinFile
	if g.Warned[path] {
		return
	}
	g.Warned[path] = true
	c.Warn(g.S.At("path"), "credentials that are not a node's", "%s holds %s. The node authorizer and "+
		"NodeRestriction, which limit a kubelet to its own Node, know only users %sNAME in the group %s. "+
		"%s.", path, what, block.NodeUser,
		block.NodeGroup, rightForm)
}
