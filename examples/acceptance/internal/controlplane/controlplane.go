// Package controlplane runs etcd, kube-apiserver, kube-controller-manager and, where a
// test asks for it, kube-scheduler as processes, with what `kubeadm init` leaves in a cluster for nodes to join. Or
// the real kubeadm init makes the cluster, on a machine.
package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"nodejoin/examples/acceptance/internal/components"
)

// Networks of the cluster.
const (
	PodCIDR     = "10.244.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	DNSIP       = "10.96.0.10"
	ServiceIP   = "10.96.0.1" // of the API server
	// Networks of IPv6 beside them, where a test asks for both families.
	PodCIDR6     = "fd00:10:244::/56"
	ServiceCIDR6 = "fd00:10:96::/112"
)

const (
	startWait   = 90 * time.Second
	kubeadmWait = 4 * time.Minute
	stopWait    = 5 * time.Second
)

// Options of a control plane.
type Options struct {
	Components *components.Set
	Dir        string // empty folder of the test's own: keys, data, logs
	// Unsigned starts no controllers that approve and sign certificates: kubelets
	// wait for theirs.
	Unsigned bool
	// Address is where the API server listens, for machines of other networks;
	// default 127.0.0.1.
	Address string
	// Everywhere: it listens at all addresses of the machine, as Address may go for a moment.
	Everywhere bool
	// APIServer is the component to run as the API server; default kube-apiserver.
	APIServer string
	// Kubeadm is a machine where the real kubeadm init of components.OldKubernetes makes the cluster; nil = none. Of the
	// other options only Components and Dir count then, and tests get no certificates from the cluster.
	Kubeadm Machine
	// Audit has the API server log all requests.
	Audit bool
	// NodeGrace is how long a Node whose kubelet says nothing stays Ready; 0 = as Kubernetes has it.
	NodeGrace time.Duration
	// DualStack gives pods and services networks of IPv6 as well.
	DualStack bool
}

// networks are those of pods and services, as the programs take them.
func (o Options) networks() (pods, services string) {
	if o.DualStack {
		return PodCIDR + "," + PodCIDR6, ServiceCIDR + "," + ServiceCIDR6
	}
	return PodCIDR, ServiceCIDR
}

func (o Options) bind() string {
	if o.Everywhere {
		return "0.0.0.0"
	}
	return o.Address
}

// Cluster is a running control plane.
type Cluster struct {
	URL        string
	CA         []byte // PEM
	CAHash     string // "sha256:...", as kubeadm pins it
	Kubeconfig string // file of the administrator's
	Client     kubernetes.Interface

	dir       string
	opts      Options
	ca        *authority
	etcdURL   string
	port      int
	processes map[string]*process
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start brings the control plane up and waits until it answers. Stop must follow.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	limit := startWait
	if o.Kubeadm != nil {
		limit = kubeadmWait
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the control plane was not up within %v", limit))
	defer cancel()
	if o.Address == "" {
		o.Address = "127.0.0.1"
	}
	c := &Cluster{dir: o.Dir, opts: o, processes: map[string]*process{}}
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, c.Logs())
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if c.opts.Kubeadm != nil {
		return c.initByKubeadm(ctx)
	}
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	c.port = ports[0]
	c.URL = fmt.Sprintf("https://%s:%d", c.opts.Address, c.port)
	if err := c.certificates(); err != nil {
		return err
	}
	c.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[2])
	if c.Kubeconfig, err = c.kubeconfig("admin"); err != nil {
		return err
	}
	if err := c.run("etcd", "--data-dir="+c.path("etcd"), "--listen-client-urls="+c.etcdURL,
		"--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--unsafe-no-fsync", "--log-level=warn"); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if err := c.joinObjects(ctx); err != nil {
		return fmt.Errorf("what nodes need to join: %w", err)
	}
	return c.startControllers(ports[3])
}

func (c *Cluster) certificates() error {
	var err error
	if c.ca, err = newAuthority(c.dir); err != nil {
		return err
	}
	c.CA, c.CAHash = c.ca.pem, c.ca.hash()
	return errors.Join(
		c.ca.server("apiserver", net.ParseIP(c.opts.Address), net.IPv4(127, 0, 0, 1), net.ParseIP(ServiceIP)),
		c.ca.client("admin", "kubernetes-admin", "system:masters"),
		c.ca.client("controllers", "system:kube-controller-manager", "system:masters"),
		c.ca.client("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
		c.ca.serviceAccountKey("sa"))
}

// StartAPIServer starts the API server, after Stop of it for a test too, and waits
// until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	_, services := c.opts.networks()
	audit, err := c.auditing()
	if err != nil {
		return err
	}
	if err := c.run("kube-apiserver", append(audit, "--etcd-servers="+c.etcdURL, "--bind-address="+c.opts.bind(),
		"--advertise-address="+c.opts.Address,
		fmt.Sprintf("--secure-port=%d", c.port), "--endpoint-reconciler-type=none",
		"--client-ca-file="+c.path("ca.crt"), "--tls-cert-file="+c.path("apiserver.crt"), "--tls-private-key-file="+
			c.path("apiserver.key"),
		"--kubelet-client-certificate="+c.path("kubelet-client.crt"), "--kubelet-client-key="+c.path("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--enable-bootstrap-token-auth", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+c.path("sa.key"), "--service-account-signing-key-file="+c.path("sa.key"),
		"--service-cluster-ip-range="+services, "--allow-privileged=true", "--profiling=false", "-v=2")...); err != nil {
		return err
	}
	return c.awaitAPIServer(ctx)
}

// awaitAPIServer makes the administrator's client and waits until the API server is ready.
func (c *Cluster) awaitAPIServer(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	c.Client = client
	return c.poll(ctx, "kube-apiserver", func() error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *Cluster) startControllers(port int) error {
	config, err := c.kubeconfig("controllers")
	if err != nil {
		return err
	}
	controllers := []string{"bootstrap-signer-controller", "token-cleaner-controller", "node-lifecycle-controller",
		"taint-eviction-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller",
		"node-ipam-controller", "namespace-controller", "pod-garbage-collector-controller", "deployment-controller",
		"replicaset-controller", "endpointslice-controller", "clusterrole-aggregation-controller",
		"job-controller", "cronjob-controller", "garbage-collector-controller"}
	if !c.opts.Unsigned {
		controllers = append(controllers, "certificatesigningrequest-signing-controller",
			"certificatesigningrequest-approving-controller")
	}
	pods, services := c.opts.networks()
	var grace []string
	if c.opts.NodeGrace > 0 {
		grace = []string{"--node-monitor-grace-period=" + c.opts.NodeGrace.String()}
	}
	return c.run("kube-controller-manager", append(grace, "--kubeconfig="+config,
		"--controllers="+strings.Join(controllers, ","),
		"--cluster-signing-cert-file="+c.path("ca.crt"), "--cluster-signing-key-file="+c.path("ca.key"), "--root-ca-file="+
			c.path("ca.crt"),
		"--service-account-private-key-file="+c.path("sa.key"), "--use-service-account-credentials=false",
		"--leader-elect=false",
		"--allocate-node-cidrs=true", "--cluster-cidr="+pods, "--service-cluster-ip-range="+services,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "-v=2")...)
}

// StartScheduler starts the scheduler, for tests whose pods name no node.
func (c *Cluster) StartScheduler() error {
	return c.run("kube-scheduler", "--kubeconfig="+c.path("controllers.kubeconfig"), "--leader-elect=false",
		"--secure-port=0", "-v=2")
}

// KubeconfigOf writes a kubeconfig with a client certificate for a user in a group, and
// gives its file, NAME.kubeconfig.
func (c *Cluster) KubeconfigOf(name, user, group string) (file string, err error) {
	if err := c.ca.client(name, user, group); err != nil {
		return "", err
	}
	return c.kubeconfig(name)
}

// kubeconfig writes NAME.kubeconfig with the client certificate of that name.
func (c *Cluster) kubeconfig(name string) (string, error) {
	cert, err := os.ReadFile(c.path(name + ".crt"))
	if err != nil {
		return "", err
	}
	key, err := os.ReadFile(c.path(name + ".key"))
	if err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["acceptance"] = &clientcmdapi.Cluster{Server: c.URL, CertificateAuthorityData: c.CA}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: "acceptance", AuthInfo: name}
	config.CurrentContext = name
	file := c.path(name + ".kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

// run starts a program with its output in NAME.log. It dies with the test.
func (c *Cluster) run(name string, args ...string) error {
	log, err := os.OpenFile(c.path(name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	program := name
	if name == "kube-apiserver" && c.opts.APIServer != "" {
		program = c.opts.APIServer
	}
	cmd := exec.Command(c.opts.Components.Bin(program)+exe, args...)
	cmd.Stdout, cmd.Stderr = log, log
	bind(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { cmd.Wait(); close(p.done) }()
	c.processes[name] = p
	return nil
}

// poll asks until there is no error, the program has ended, or ctx.
func (c *Cluster) poll(ctx context.Context, name string, ask func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var done chan struct{} // nil = it is no process of ours
	p := c.processes[name]
	if p != nil {
		done = p.done
	}
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("%s ended: %v", name, p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", name, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// StopAPIServer ends the API server, as a test of nodes that cannot reach it.
func (c *Cluster) StopAPIServer() { c.stop("kube-apiserver") }

// Stop ends all processes.
func (c *Cluster) Stop() {
	for _, name := range []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"} {
		c.stop(name)
	}
}

func (c *Cluster) stop(name string) {
	p := c.processes[name]
	if p == nil {
		return
	}
	terminate(p.cmd.Process)
	select {
	case <-p.done:
	case <-time.After(stopWait):
		p.cmd.Process.Kill()
		<-p.done
	}
	delete(c.processes, name)
}

// Logs is the tail of each program's log, for the report of a failed test.
func (c *Cluster) Logs() string {
	if c.opts.Kubeadm != nil {
		return c.kubeadmLogs()
	}
	var b strings.Builder
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if log, err := os.ReadFile(c.path(name + ".log")); err == nil {
			logTail(&b, name, log)
		}
	}
	return b.String()
}

func logTail(to *strings.Builder, name string, log []byte) {
	const tail = 40
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	lines = lines[max(0, len(lines)-tail):]
	fmt.Fprintf(to, "--- %s\n%s\n", name, bytes.Join(lines, []byte("\n")))
}

// freePorts returns ports that were free a moment ago; the programs cannot be told to
// choose their own.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
