package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// unreadable says why a file cannot be read as a kubeconfig. The loader's own text is that of a JSON decoder.
func unreadable(file string, err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("kubeconfig %s does not exist", file)
	case errors.As(err, &pe):
		return fmt.Errorf("kubeconfig %s cannot be read: %w", file, pe.Err)
	}
	return fmt.Errorf("%s is not a kubeconfig: it must be YAML with apiVersion v1 and kind Config, as kubectl writes it",
		file)
}

// incomplete says what a kubeconfig lacks for a connection; "" = nothing.
func incomplete(c *clientcmdapi.Config) string {
	if len(c.Clusters) == 0 && len(c.Contexts) == 0 && len(c.AuthInfos) == 0 {
		return "it names no cluster, no user and no context; is it a kubeconfig?"
	}
	contexts := strings.Join(slices.Sorted(maps.Keys(c.Contexts)), ", ")
	if c.CurrentContext == "" {
		return "it has no current-context; choose one of its contexts (" + contexts + ") with kubectl config use-context"
	}
	context := c.Contexts[c.CurrentContext]
	switch {
	case context == nil:
		return fmt.Sprintf("its current-context %q is not one of its contexts (%s)", c.CurrentContext, contexts)
	case c.Clusters[context.Cluster] == nil:
		return fmt.Sprintf("its context %q is of the cluster %q, which it does not have", c.CurrentContext, context.Cluster)
	case c.Clusters[context.Cluster].Server == "":
		return fmt.Sprintf("its cluster %q has no server", context.Cluster)
	case c.AuthInfos[context.AuthInfo] == nil:
		return fmt.Sprintf("its context %q is of the user %q, which it does not have", c.CurrentContext, context.AuthInfo)
	}
	return ""
}
