package kinds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var kubeadmJoinKind = steps.Kind{Name: "kubeadm_join", Place: steps.OnHost, Timeout: 15 * time.Minute,
	Doc: "a machine that kubeadm has joined to the cluster as a worker",
	Args: map[string]string{
		"program": "path of kubeadm; its folder holds the kubelet. On Windows its drive holds \\etc\\kubernetes and " +
			"\\var\\lib\\kubelet. On Linux systemd must run the services: kubeadm starts the kubelet by it",
		"config_version": "version of JoinConfiguration that it reads: \"v1beta3\" or \"v1beta4\" (from " +
			"Kubernetes 1.31)",
		"ignore_preflight_errors": "preflight checks whose errors do not end the join, by the names that kubeadm gives them",
	},
	New:     func() any { return &KubeadmJoin{} },
	Claims:  steps.Claims((*KubeadmJoin).claims),
	Secrets: steps.Secrets((*KubeadmJoin).secrets), Render: steps.Renders((*KubeadmJoin).rendered)}

// KubeadmJoin is a machine that `kubeadm join` has made a node of the cluster. It is
// judged by what that leaves: a kubeconfig of the kubelet that is of this cluster (its
// CA) and this node and holds a valid certificate, and the kubelet's configuration,
// which on Windows only the system and administrators may change.
// The server is not compared: kubeadm may take it from the cluster's cluster-info.
//
// kubeadm wants the service of the kubelet to exist and its own files not to. The
// service is registered where it is not, to be started by hand until its own step has
// looked after it. Files are removed only where the record says that they were made by
// an earlier try; of others kubeadm's preflight checks speak by their names.
type KubeadmJoin struct {
	Program       string   `json:"program" path:"true"`
	ConfigVersion string   `json:"config_version" choices:"v1beta3,v1beta4"`
	Server        string   `json:"server" doc:"URL of the API server"`
	CA            string   `json:"ca" doc:"PEM of the cluster's CA; the API server is trusted by it alone"`
	Token         string   `json:"token" doc:"bootstrap token"` // or a certificate, as kube.BootstrapToken
	CRISocket     string   `json:"cri_socket" doc:"endpoint of the container runtime"`
	Kubelet       []string `json:"kubelet" doc:"command of the service kubelet, for where it is not registered yet"`
	Log           string   `json:"log" doc:"file for what kubeadm prints; it is replaced" path:"true"`
	Makes         []string `json:"makes,omitempty" doc:"files and folders that the kubelet makes"`
	Chains        []string `json:"chains,omitempty" doc:"prefixes of the packet filter chains that the kubelet makes"`
	Ignore        []string `json:"ignore_preflight_errors,omitempty"`
	Version       string   `json:"version,omitempty" doc:"of kubeadm; after another, it writes the settings again"`
}

func (k *KubeadmJoin) secrets(shown func(string) string) { k.Token = hideToken(k.Token, shown) }

// JoinConfigVersions are the versions of kubeadm's JoinConfiguration that are known.
var JoinConfigVersions = []string{"v1beta3", "v1beta4"}

// kubeletService is the name that kubeadm starts the kubelet by.
const kubeletService = "kubelet"

// kubeadmFiles are where a worker's join works (kubernetes
// cmd/kubeadm/app/constants: KubernetesDir, KubeletRunDirectory and names in them).
type kubeadmFiles struct {
	conf, bootstrap, ca             string // must not exist before
	backups                         string // folder of kubelet settings that an upgrade replaced
	kubeletConfig, flags, criConfig string // are replaced
	certificate                     string // of the kubelet, by which it would join nothing
	join, discovery                 string // ours, with token or certificate; there only while kubeadm runs
}

func (k *KubeadmJoin) files(os string) kubeadmFiles {
	root := "/"
	if os == "windows" {
		root, _, _ = strings.Cut(k.Program, `\`)
	}
	etc, lib := host.Join(os, root, "etc", "kubernetes"), host.Join(os, root, "var", "lib", "kubelet")
	return kubeadmFiles{
		conf: host.Join(os, etc, "kubelet.conf"), bootstrap: host.Join(os, etc, "bootstrap-kubelet.conf"),
		ca:            host.Join(os, etc, "pki", "ca.crt"),
		backups:       host.Join(os, etc, "tmp"),
		kubeletConfig: host.Join(os, lib, "config.yaml"), flags: host.Join(os, lib, "kubeadm-flags.env"),
		criConfig:   host.Join(os, lib, "instance-config.yaml"),
		certificate: host.Join(os, lib, "pki", clientCertificate),
		join:        host.Join(os, etc, "nodejoin-kubeadm.yaml"), discovery: host.Join(os, etc, "nodejoin-discovery.conf"),
	}
}

// claimed are the files that a join makes or replaces.
func (k *KubeadmJoin) claimed(f kubeadmFiles) []string {
	return []string{f.conf, f.bootstrap, f.ca, f.kubeletConfig, f.flags, f.criConfig, k.Log}
}

func (k *KubeadmJoin) claims(e *steps.Env) []record.Key {
	f := k.files(e.Facts.OS)
	out := []record.Key{ServiceKey(kubeletService), record.Backup.Of(f.certificate)}
	for _, path := range k.claimed(f) {
		out = append(out, record.File.Of(path))
	}
	return append(out, k.service(f).claims(e)...)
}

func (k *KubeadmJoin) rendered(to steps.RenderFor) (steps.Rendering, error) {
	shown := *k
	shown.Token = steps.ShowRefs(k.Token)
	path, text, err := shown.configFile(to.OS, to.Node)
	return steps.Rendering{Path: path, Content: string(text)}, err
}

// configFile is the JoinConfiguration for a node on an operating system, and where it
// lies while kubeadm runs.
func (k *KubeadmJoin) configFile(os, node string) (path string, text []byte, err error) {
	f := k.files(os)
	c := joinConfiguration{APIVersion: "kubeadm.k8s.io/" + k.ConfigVersion, Kind: "JoinConfiguration", CACertPath: f.ca}
	// Of a path with a drive kubeadm says that it is no https URL
	// (cmd/kubeadm/app/apis/kubeadm/validation): it runs in the folder of its program,
	// so that a path without one is on that drive.
	discovery := f.discovery
	if os == "windows" {
		_, discovery, _ = strings.Cut(discovery, ":")
	}
	c.Discovery.File.KubeConfigPath = discovery
	if _, ok := certificateOf(k.Token); !ok {
		c.Discovery.TLSBootstrapToken = k.Token
	}
	n := &c.NodeRegistration
	n.Name, n.CRISocket, n.Taints, n.IgnorePreflightErrors = node, k.CRISocket, []struct{}{}, k.Ignore
	text, err = yaml.Marshal(c)
	return f.join, text, err
}

func (k *KubeadmJoin) validate() error {
	switch {
	case k.Program == "" || k.Server == "" || k.CA == "" || k.CRISocket == "" || k.Log == "" || len(k.Kubelet) == 0:
		return steps.Invalid("kubeadm_join needs program, server, ca, cri_socket, kubelet and log")
	case !slices.Contains(JoinConfigVersions, k.ConfigVersion):
		return steps.Invalid("config_version %q is not one of %s", k.ConfigVersion, strings.Join(JoinConfigVersions, ", "))
	}
	return nil
}

func (k *KubeadmJoin) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := k.validate(); err != nil {
		return steps.Change{}, err
	}
	f := k.files(e.Facts.OS)
	why, err := k.missing(ctx, r, e, f)
	if err != nil {
		return steps.Change{}, err
	}
	if why != "" {
		if err := startable(e.Facts); err != nil {
			return steps.Change{}, err
		}
		svc, err := r.Service(ctx, kubeletService)
		if err == nil && !steps.Ours(svc, e.Record) {
			err = &steps.Error{Code: steps.CodeFailed, Summary: "a service of this name exists",
				Detail: fmt.Sprintf("service %s (%s) was not registered by nodejoin", kubeletService,
					strings.Join(svc.Command, " ")), Remedy: steps.ForeignRemedy(kubeletService)}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return steps.Change{}, err
		}
		return steps.Change{Action: steps.ActionCreate, Reason: why,
			Diffs: []steps.Diff{{Name: "server", Want: k.Server}, {Name: "ca", Want: certText([]byte(k.CA))}, {Name: "token",
				Sensitive: true}},
			Touches: []steps.Touch{{Path: f.conf}, {Path: f.ca}, {Path: f.kubeletConfig}, {Path: f.flags}, {Path: f.criConfig},
				{Service: kubeletService}}}, nil
	}
	for _, path := range []string{f.join, f.discovery} {
		if there, err := host.Exists(ctx, r, path); err != nil || there {
			return steps.Change{Action: steps.ActionDelete, Reason: path + " is left from a join that was interrupted"}, err
		}
	}
	if have := k.kubeadm().outdated(e); have != "" {
		return steps.Change{Action: steps.ActionUpdate, Reason: "kubeadm upgrade node has to run",
			Diffs:   []steps.Diff{{Name: "version", Have: have, Want: k.Version}},
			Touches: []steps.Touch{{Path: f.kubeletConfig}, {Path: f.flags}, {Path: f.criConfig}}}, nil
	}
	open, err := k.open(ctx, r, e, f)
	if err != nil || len(open) == 0 {
		return steps.Change{}, err
	}
	return steps.Change{Action: steps.ActionUpdate, Reason: strings.Join(open, ", ") + ", as kubeadm leaves it",
		Diffs: []steps.Diff{{Name: "access", Have: "open to others", Want: "private"}}}, nil
}

// startable refuses a machine on which kubeadm cannot start the kubelet: it would wait for it in vain (kubernetes
// cmd/kubeadm/app/util/initsystem).
func startable(f host.Facts) error {
	if f.OS != "linux" || f.Init == "systemd" {
		return nil
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "kubeadm needs systemd",
		Detail: "kubeadm starts the kubelet by systemctl, and systemd does not run the services of this machine",
		Remedy: "join \"bootstrap_token\" needs no systemd"}
}

// open returns those of the kubelet's settings that kubeadm has written for any user of a
// Windows machine to change.
func (k *KubeadmJoin) open(ctx context.Context, r host.Reader, e *steps.Env, f kubeadmFiles) (
	list []string, err error) {
	if e.Facts.OS != "windows" {
		return nil, nil
	}
	for _, path := range []string{f.kubeletConfig, f.flags, f.criConfig} {
		fi, err := r.Stat(ctx, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case fi.Access != host.AccessPrivate:
			list = append(list, path)
		}
	}
	return list, nil
}

func (k *KubeadmJoin) closeFiles(ctx context.Context, h host.Host, e *steps.Env, f kubeadmFiles) error {
	open, err := k.open(ctx, h, e, f)
	for _, path := range open {
		err = errors.Join(err, h.SetAccess(ctx, path, host.AccessPrivate))
	}
	return err
}

// missing says what a join would give and is not there, "" if the machine is joined.
func (k *KubeadmJoin) missing(ctx context.Context, r host.Reader, e *steps.Env, f kubeadmFiles) (string, error) {
	why, err := clientConfig{path: f.conf, ca: k.CA}.unusable(ctx, r, e, time.Now())
	if err != nil || why != "" {
		return why, err
	}
	there, err := host.Exists(ctx, r, f.kubeletConfig)
	if err != nil || there {
		return "", err
	}
	return f.kubeletConfig + " does not exist", nil
}

func (k *KubeadmJoin) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (
	_ steps.Outcome, err error) {
	f := k.files(e.Facts.OS)
	switch c.Action {
	case steps.ActionDelete:
		return steps.Outcome{}, removeAll(ctx, h, f.join, f.discovery)
	case steps.ActionUpdate:
		if k.kubeadm().outdated(e) != "" {
			if err := k.upgrade(ctx, h, e, f); err != nil {
				return steps.Outcome{}, err
			}
		}
		return steps.Outcome{}, k.closeFiles(ctx, h, e, f)
	}
	if len(host.Certificates([]byte(k.CA))) == 0 {
		return steps.Outcome{}, steps.Invalid("the CA for the join is not a PEM certificate")
	}
	if err := k.prepare(ctx, h, e, f); err != nil {
		return steps.Outcome{}, err
	}
	// What holds the token goes, however the join ends.
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		gone := []string{f.join, f.discovery}
		if createdFile(e, f.bootstrap) {
			gone = append(gone, f.bootstrap)
		}
		err = errors.Join(err, removeAll(bound, h, gone...))
	}()
	if err := k.write(ctx, h, e, f); err != nil {
		return steps.Outcome{}, err
	}
	if err := k.kubeadm().run(ctx, h, e, "join", "--config", f.join); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, k.closeFiles(ctx, h, e, f)
}

func (k *KubeadmJoin) kubeadm() kubeadmProgram { return kubeadmProgram{k.Program, k.Log, k.Version} }

// upgrade runs `kubeadm upgrade node`: on a worker it fetches the cluster's kubelet settings and writes them
// as this version does, after a copy of the earlier ones in its folder tmp. It does not restart the kubelet
// (kubernetes cmd/kubeadm/app/cmd/upgrade/node.go, phases/upgrade/postupgrade.go). A repetition does no harm.
func (k *KubeadmJoin) upgrade(ctx context.Context, h host.Host, e *steps.Env, f kubeadmFiles) error {
	for _, path := range []string{f.kubeletConfig, f.flags, f.criConfig, k.Log} {
		if err := claimFile(ctx, h, e, path, true); err != nil {
			return err
		}
	}
	if err := k.service(f).claim(ctx, h, e); err != nil {
		return err
	}
	args := []string{"upgrade", "node", "--kubeconfig", f.conf}
	if len(k.Ignore) > 0 {
		args = append(args, "--ignore-preflight-errors="+strings.Join(k.Ignore, ","))
	}
	return k.kubeadm().run(ctx, h, e, args...)
}

// prepare claims what the join will make, takes away what an earlier one left, and
// sees to the service.
func (k *KubeadmJoin) prepare(ctx context.Context, h host.Host, e *steps.Env, f kubeadmFiles) error {
	for _, path := range k.claimed(f) {
		if createdFile(e, path) {
			continue
		}
		if err := claimFile(ctx, h, e, path, true); err != nil {
			return err
		}
	}
	switch _, err := h.Service(ctx, kubeletService); {
	case errors.Is(err, fs.ErrNotExist):
		if err := k.service(f).claim(ctx, h, e); err != nil {
			return err
		}
		if err := h.CreateService(ctx, host.ServiceConfig{Name: kubeletService, DisplayName: kubeletService,
			Description: "Kubernetes node agent " + steps.OwnershipMark,
			Command:     k.Kubelet, Start: host.StartManual}); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if err := stopService(ctx, h, e, kubeletService); err != nil {
			return err
		}
	}
	for _, path := range []string{f.conf, f.bootstrap, f.ca} {
		if !createdFile(e, path) {
			continue // kubeadm refuses it by name
		}
		if err := removeAll(ctx, h, path); err != nil {
			return err
		}
	}
	// The kubelet would take it for its own until it expires, whoever signed it.
	return backUp(ctx, h, e, f.certificate)
}

// service is the kubelet, as far as leave undoes what it makes: kubeadm starts it before its own step does.
func (k *KubeadmJoin) service(f kubeadmFiles) *Service {
	return &Service{ServiceConfig: host.ServiceConfig{Name: kubeletService}, Chains: k.Chains,
		Makes: append(slices.Clone(k.Makes), f.backups)}
}

// createdFile reports whether the file, if it is there, was made by a step or by the
// program of a service (Makes).
func createdFile(e *steps.Env, path string) bool {
	return steps.Created(e, record.File.Of(path), record.ProgramData.Of(path))
}

// removeAll removes those of the files that are there.
func removeAll(ctx context.Context, h host.Files, paths ...string) error {
	var errs []error
	for _, path := range paths {
		there, err := host.Exists(ctx, h, path)
		if err == nil && there {
			err = h.Remove(ctx, path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// write writes what kubeadm reads.
func (k *KubeadmJoin) write(ctx context.Context, h host.Host, e *steps.Env, f kubeadmFiles) error {
	_, config, err := k.configFile(e.Facts.OS, e.Node)
	if err != nil {
		return err
	}
	by, _ := certificateOf(k.Token)
	discovery, err := discoveryFile(k.Server, k.CA, by)
	if err != nil {
		return err
	}
	if err := h.WriteFile(ctx, f.discovery, bytes.NewReader(discovery),
		host.WriteOptions{Access: host.AccessPrivate}); err != nil {
		return err
	}
	return h.WriteFile(ctx, f.join, bytes.NewReader(config), host.WriteOptions{Access: host.AccessPrivate})
}
