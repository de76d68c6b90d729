package cluster

import (
	"errors"
	"io/fs"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

func TestNetworkOfTheCluster(t *testing.T) {
	var asked []string
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		switch r.URL.Path {
		case "/api/v1/nodes":
			list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
			for _, n := range []string{"lin-2", "lin-1"} {
				list.Items = append(list.Items,
					corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Annotations: map[string]string{"of": n}}})
			}
			reply(w, list)
		case "/api/v1/namespaces/kube-flannel/configmaps/kube-flannel-cfg":
			reply(w, corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				Data: map[string]string{"net-conf.json": "{}"}})
		case "/api/v1/namespaces/kube-system/configmaps/secret":
			status(w, 403, metav1.StatusReasonForbidden, "no")
		default:
			status(w, 404, metav1.StatusReasonNotFound, "not found")
		}
	})
	nodes, err := a.LinuxNodes(t.Context(), 7)
	if err != nil || len(nodes) != 2 || nodes[0].Name != "lin-1" || nodes[0].Annotations["of"] != "lin-1" {
		t.Errorf("%+v, %v", nodes, err)
	}
	if d := cmp.Diff([]string{"/api/v1/nodes?labelSelector=kubernetes.io%2Fos%3Dlinux&limit=7"}, asked); d != "" {
		t.Error(d)
	}
	if data, err := a.ConfigMap(t.Context(), "kube-flannel", "kube-flannel-cfg"); err != nil ||
		data["net-conf.json"] != "{}" {
		t.Errorf("%v, %v", data, err)
	}
	if _, err := a.ConfigMap(t.Context(), "kube-system", "kube-flannel-cfg"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := a.ConfigMap(t.Context(), "kube-system", "secret"); !errors.Is(err, kube.ErrForbidden) {
		t.Error(err)
	}
}
