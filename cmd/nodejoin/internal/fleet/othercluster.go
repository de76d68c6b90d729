package fleet

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// checkKubeconfig refuses a kubeconfig that needs files or programs which a pod does not have.
func checkKubeconfig(text []byte) error {
	var config struct {
		Clusters []struct {
			Name    string
			Cluster map[string]any
		}
		Users []struct {
			Name string
			User map[string]any
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("it is not a kubeconfig: %w", err)
	}
	if len(config.Clusters) == 0 || len(config.Users) == 0 {
		return fmt.Errorf("it is not a kubeconfig: it has %d clusters and %d users", len(config.Clusters), len(config.Users))
	}
	for _, c := range config.Clusters {
		if c.Cluster["certificate-authority"] != nil {
			return missing("cluster", c.Name, "certificate-authority")
		}
	}
	for _, u := range config.Users {
		for _, name := range []string{"client-certificate", "client-key", "tokenFile", "exec", "auth-provider"} {
			if u.User[name] != nil {
				return missing("user", u.Name, name)
			}
		}
	}
	return nil
}

func missing(kind, of, name string) error {
	return fmt.Errorf("its %s %q has the field %s, and a pod does not have that file or program: write the data itself "+
		"into the kubeconfig ('kubectl config view --flatten --raw'), or use a token", kind, of, name)
}
