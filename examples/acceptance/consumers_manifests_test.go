package acceptance_test

import (
	"context"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// manifestsFolder is where render writes the objects for the whole cluster.
const manifestsFolder = "_manifests/"

// manifestPlaces are the API paths of the kinds in manifests; %s is the namespace.
var manifestPlaces = map[string]string{
	"v1 Namespace": "/api/v1/namespaces", "v1 ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts",
	"v1 ConfigMap":      "/api/v1/namespaces/%s/configmaps",
	"apps/v1 DaemonSet": "/apis/apps/v1/namespaces/%s/daemonsets",
	"rbac.authorization.k8s.io/v1 ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"node.k8s.io/v1 RuntimeClass":                     "/apis/node.k8s.io/v1/runtimeclasses",
}

var manifestField = map[string]*regexp.Regexp{
	"apiVersion": regexp.MustCompile(`(?m)^apiVersion: (\S+)$`), "kind": regexp.MustCompile(`(?m)^kind: (\S+)$`),
	"name":      regexp.MustCompile(`(?m)^  name: '?([^\s']+)'?$`),
	"namespace": regexp.MustCompile(`(?m)^  namespace: (\S+)$`),
}

// prepareManifests creates what the manifests need: the namespace, which an earlier object of the same file
// would create, and the DaemonSet of which one sets a field.
func (c *consumers) prepareManifests(ctx context.Context) {
	c.t.Helper()
	k := c.bed.cluster.Client
	if _, err := k.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel"}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.bed.createKubeProxy(ctx)
}

// manifest applies the objects of a file with server-side apply, in a dry run.
func (c *consumers) manifest(ctx context.Context, a *artifact) {
	for _, doc := range strings.Split(a.content, "\n---\n") {
		field := map[string]string{}
		for name, re := range manifestField {
			if m := re.FindStringSubmatch(doc); m != nil {
				field[name] = m[1]
			}
		}
		if field["apiVersion"] == "node.k8s.io/v1beta1" {
			if !strings.HasPrefix(a.of[0], "1.19.") {
				c.t.Errorf("%s: it uses an API that servers of this version no longer have", a)
			}
			continue // today's API server does not serve it
		}
		place := manifestPlaces[field["apiVersion"]+" "+field["kind"]]
		if place == "" || field["name"] == "" || strings.Contains(place, "%s") && field["namespace"] == "" {
			c.t.Errorf("%s: the API server has no resource for\n%s", a, doc)
			continue
		}
		place = strings.Replace(place, "%s", field["namespace"], 1) + "/" + field["name"]
		apply := func(doc string) error {
			q := c.bed.cluster.Client.CoreV1().RESTClient().Patch(types.ApplyPatchType).AbsPath(place).Param("dryRun",
				"All").Param("fieldValidation", "Strict")
			return q.Param("fieldManager", "nodejoin").Body([]byte(doc)).Do(ctx).Error()
		}
		if err := apply(doc); err != nil {
			c.t.Errorf("%s: %v\n%s", a, err, doc)
		}
		if err := apply(doc + "\nnoSuchField: 1\n"); err == nil {
			c.t.Errorf("%s: the API server accepted an unknown field", a)
		}
	}
}
