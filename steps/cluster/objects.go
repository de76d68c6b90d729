package cluster

import (
	"context"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// The clients of the groups that nodejoin asks. Those of client-go/kubernetes link the types of all groups and
// versions, which are 9 MB of the program.
type (
	coreClient   struct{ group }
	rbacClient   struct{ group }
	certsClient  struct{ group }
	leasesClient struct{ group }
)

// codecs know the types of these groups.
type codecs struct {
	serializer.CodecFactory
	params runtime.ParameterCodec
}

func newCodecs() (codecs, error) {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, certificatesv1.AddToScheme,
		coordinationv1.AddToScheme, policyv1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(s); err != nil {
			return codecs{}, fmt.Errorf("types of Kubernetes: %w", err)
		}
	}
	return codecs{serializer.NewCodecFactory(s), runtime.NewParameterCodec(s)}, nil
}

// group sends requests for the objects of an API group.
type group struct {
	rest   rest.Interface
	params runtime.ParameterCodec
}

func (c codecs) group(cfg *rest.Config, h *http.Client, version schema.GroupVersion) (group, error) {
	own := rest.CopyConfig(cfg)
	own.GroupVersion, own.APIPath, own.NegotiatedSerializer = &version, "/apis", c.WithoutConversion()
	if version.Group == "" {
		own.APIPath = "/api"
	}
	r, err := rest.RESTClientForConfigAndClient(own, h)
	return group{r, c.params}, err
}

// objects are those of a resource, in a namespace if it has one. T is a struct whose pointer is a runtime.Object,
// L its list.
type objects[T, L any] struct {
	group
	resource, namespace string
}

// of completes a request to the resource.
func (o objects[T, L]) of(r *rest.Request) *rest.Request {
	return r.NamespaceIfScoped(o.namespace, o.namespace != metav1.NamespaceAll).Resource(o.resource)
}

// into sends a request and decodes the answer.
func into[T any](ctx context.Context, r *rest.Request) (*T, error) {
	out := new(T)
	object, ok := any(out).(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object of Kubernetes", out)
	}
	err := r.Do(ctx).Into(object)
	return out, err
}

// Get reads one object by name.
func (o objects[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (*T, error) {
	return into[T](ctx, o.of(o.rest.Get()).Name(name).VersionedParams(&opts, o.params))
}

// List reads those that the options choose.
func (o objects[T, L]) List(ctx context.Context, opts metav1.ListOptions) (*L, error) {
	return into[L](ctx, o.of(o.rest.Get()).VersionedParams(&opts, o.params).Timeout(0)) // as client-go: no parameter
}

// Create makes an object and returns it as the API server has it.
func (o objects[T, L]) Create(ctx context.Context, object *T, opts metav1.CreateOptions) (*T, error) {
	return into[T](ctx, o.of(o.rest.Post()).VersionedParams(&opts, o.params).Body(object))
}

// Update replaces an object; one that has changed since it was read is a conflict.
func (o objects[T, L]) Update(ctx context.Context, object *T, opts metav1.UpdateOptions) (*T, error) {
	return o.update(ctx, object, opts)
}

// update replaces an object, or a part of it that has a path of its own.
func (o objects[T, L]) update(ctx context.Context, object *T, opts metav1.UpdateOptions, part ...string) (*T, error) {
	named, ok := any(object).(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no name", object)
	}
	return into[T](ctx, o.of(o.rest.Put()).Name(named.GetName()).SubResource(part...).VersionedParams(&opts, o.params).
		Body(object))
}

// Patch changes an object.
func (o objects[T, L]) Patch(ctx context.Context, name string, t types.PatchType, patch []byte,
	opts metav1.PatchOptions) (*T, error) {
	return into[T](ctx, o.of(o.rest.Patch(t)).Name(name).VersionedParams(&opts, o.params).Body(patch))
}

// Delete deletes an object.
func (o objects[T, L]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return o.of(o.rest.Delete()).Name(name).Body(&opts).Do(ctx).Error()
}

func (c coreClient) Nodes() objects[corev1.Node, corev1.NodeList] {
	return objects[corev1.Node, corev1.NodeList]{c.group, "nodes", ""}
}

func (c coreClient) Namespaces() objects[corev1.Namespace, corev1.NamespaceList] {
	return objects[corev1.Namespace, corev1.NamespaceList]{c.group, "namespaces", ""}
}

func (c coreClient) Pods(ns string) objects[corev1.Pod, corev1.PodList] {
	return objects[corev1.Pod, corev1.PodList]{c.group, "pods", ns}
}

func (c coreClient) Events(ns string) objects[corev1.Event, corev1.EventList] {
	return objects[corev1.Event, corev1.EventList]{c.group, "events", ns}
}

func (c coreClient) Secrets(ns string) objects[corev1.Secret, corev1.SecretList] {
	return objects[corev1.Secret, corev1.SecretList]{c.group, "secrets", ns}
}

func (c coreClient) ConfigMaps(ns string) objects[corev1.ConfigMap, corev1.ConfigMapList] {
	return objects[corev1.ConfigMap, corev1.ConfigMapList]{c.group, "configmaps", ns}
}

func (c coreClient) Services(ns string) objects[corev1.Service, corev1.ServiceList] {
	return objects[corev1.Service, corev1.ServiceList]{c.group, "services", ns}
}

func (c coreClient) ServiceAccounts(ns string) objects[corev1.ServiceAccount, corev1.ServiceAccountList] {
	return objects[corev1.ServiceAccount, corev1.ServiceAccountList]{c.group, "serviceaccounts", ns}
}

// CreateToken mints a token of an account.
func (c coreClient) CreateToken(ctx context.Context, ns, account string, request *authenticationv1.TokenRequest,
	opts metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	return into[authenticationv1.TokenRequest](ctx, c.ServiceAccounts(ns).of(c.rest.Post()).Name(account).
		SubResource("token").VersionedParams(&opts, c.params).Body(request))
}

// Evict asks for the end of a pod.
func (c coreClient) Evict(ctx context.Context, e *policyv1.Eviction) error {
	return c.Pods(e.Namespace).of(c.rest.Post()).Name(e.Name).SubResource("eviction").Body(e).Do(ctx).Error()
}

func (c rbacClient) ClusterRoles() objects[rbacv1.ClusterRole, rbacv1.ClusterRoleList] {
	return objects[rbacv1.ClusterRole, rbacv1.ClusterRoleList]{c.group, "clusterroles", ""}
}

func (c rbacClient) ClusterRoleBindings() objects[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList] {
	return objects[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList]{c.group, "clusterrolebindings", ""}
}

func (c leasesClient) Leases(ns string) objects[coordinationv1.Lease, coordinationv1.LeaseList] {
	return objects[coordinationv1.Lease, coordinationv1.LeaseList]{c.group, "leases", ns}
}

type requests = objects[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList]

func (c certsClient) CertificateSigningRequests() requests {
	return requests{c.group, "certificatesigningrequests", ""}
}

// UpdateApproval approves or denies a request for a certificate.
func (c certsClient) UpdateApproval(ctx context.Context, r *certificatesv1.CertificateSigningRequest,
	opts metav1.UpdateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	return c.CertificateSigningRequests().update(ctx, r, opts, "approval")
}
