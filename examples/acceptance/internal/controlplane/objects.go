package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"nodejoin/examples/acceptance/internal/components"
)

// nodeTokens is the group of kubeadm's bootstrap tokens.
const nodeTokens = "system:bootstrappers:kubeadm:default-node-token"

// joinObjects makes what the kubeadm phases bootstrap-token and upload-config leave
// behind, except for a token: minting that is the work of nodejoin.
func (c *Cluster) joinObjects(ctx context.Context) error {
	if err := c.roleBindings(ctx); err != nil {
		return err
	}
	return errors.Join(c.clusterInfo(ctx), c.uploadedConfig(ctx))
}

func (c *Cluster) roleBindings(ctx context.Context) error {
	rbac := c.Client.RbacV1()
	if _, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, b := range []struct{ name, role, group string }{
		{"kubeadm:get-nodes", "kubeadm:get-nodes", nodeTokens},
		{"kubeadm:kubelet-bootstrap", "system:node-bootstrapper", nodeTokens},
		{"kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
			nodeTokens},
		{"kubeadm:node-autoapprove-certificate-rotation",
			"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
	} {
		if _, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.group}},
		}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// clusterInfo makes kube-public/cluster-info, which anyone may read and the
// bootstrap signer signs with each token.
func (c *Cluster) clusterInfo(ctx context.Context) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: c.URL, CertificateAuthorityData: c.CA}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	const namespace, role = metav1.NamespacePublic, "kubeadm:bootstrap-signer-clusterinfo"
	// The API server makes its own namespaces, in its own time.
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return err
	}
	if _, err := c.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"}, Data: map[string]string{"kubeconfig": string(text)},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := c.Client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{"cluster-info"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = c.Client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}},
	}, metav1.CreateOptions{})
	return err
}

// uploadedConfig makes what `kubeadm init phase upload-config` does (kubernetes
// cmd/kubeadm/app/phases/uploadconfig and phases/kubelet): two ConfigMaps of
// kube-system, and who may read them. The kubelet's is one for Linux, as kubeadm
// defaults it.
func (c *Cluster) uploadedConfig(ctx context.Context) error {
	for _, m := range []struct{ name, key, text string }{
		{"kubeadm-config", "ClusterConfiguration", fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
certificatesDir: /etc/kubernetes/pki
clusterName: kubernetes
controlPlaneEndpoint: %q
imageRepository: registry.k8s.io
kubernetesVersion: v%s
networking:
  dnsDomain: cluster.local
  podSubnet: %s
  serviceSubnet: %s
`, strings.TrimPrefix(c.URL, "https://"), components.Kubernetes, PodCIDR, ServiceCIDR)},
		{"kubelet-config", "kubelet", fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
authorization:
  mode: Webhook
cgroupDriver: systemd
clusterDNS: [%s]
clusterDomain: cluster.local
healthzBindAddress: 127.0.0.1
healthzPort: 10248
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
`, DNSIP)},
	} {
		if _, err := c.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: m.name}, Data: map[string]string{m.key: m.text},
		}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.readable(ctx, m.name); err != nil {
			return err
		}
	}
	return nil
}

// readable lets nodes, and machines that join with a token, read a ConfigMap.
func (c *Cluster) readable(ctx context.Context, name string) error {
	rbac, role := c.Client.RbacV1(), "kubeadm:"+name
	if _, err := rbac.Roles(metav1.NamespaceSystem).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{name}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := rbac.RoleBindings(metav1.NamespaceSystem).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: nodeTokens}},
	}, metav1.CreateOptions{})
	return err
}
