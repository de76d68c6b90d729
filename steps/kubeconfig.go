package steps

var kubeconfigKind = Kind{Name: "kubeconfig", Place: OnHost, Doc: "a kubeconfig with a token, private to the system",
	New: func() any { return &Kubeconfig{} }}

// Kubeconfig is a kubeconfig file that carries a token. It is in order when server
// and CA are as wanted and the credential still holds: with Unless, when that
// kubeconfig (of the kubelet, client certificate) is usable the file is not needed
// at all; otherwise when the token in the file is a JWT that is valid for longer
// than RenewBefore. While Token is not known the token in the file is judged alone.
type Kubeconfig struct {
	Path        string `json:"path" doc:"absolute path"`
	Server      string `json:"server" doc:"URL of the API server"`
	CA          string `json:"ca" doc:"PEM of the cluster's CA"`
	User        string `json:"user" doc:"name of the user entry"`
	Token       string `json:"token" doc:"bearer token"`
	Unless      string `json:"unless,omitempty" doc:"not needed while this kubeconfig holds a valid client certificate for the server"`
	RenewBefore string `json:"renew_before,omitempty" doc:"renew the token this long before it ends, default 168h"`
}
