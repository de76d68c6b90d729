package check

// identityRows are findings about the accounts of Windows containers (kubernetes
// pkg/apis/core/validation/validation.go, validateWindowsSecurityContextOptions; pkg/kubelet/kuberuntime/
// security_context_windows.go).
var identityRows = []row{
	{"run-as-user-name", Error, "the API server rejects a runAsUserName that is not USER or DOMAIN\\USER",
		"write ContainerUser, ContainerAdministrator, or an account of the image or of a domain"},
	{"run-as-non-root", Error, "the kubelet refuses ContainerAdministrator in a container with runAsNonRoot: true",
		"write runAsUserName: ContainerUser, or leave runAsNonRoot out"},
	{"windows-options", Error, "the API server rejects windowsOptions in a pod with spec.os.name linux", "remove it"},
	{"gmsa", Error, "the API server rejects the name or the text of the group managed service account",
		"name a GMSACredentialSpec, or give the JSON text that Get-CredentialSpec writes"},
	{"gmsa-credential-spec", Error, "the container does not start with it, or starts without the account: the text " +
		"must be JSON with \"ActiveDirectory\" in CmsPlugins and the account in " +
		"ActiveDirectoryConfig.GroupManagedServiceAccounts",
		"write it with New-CredentialSpec on a member of the domain"},
	{"gmsa-unknown", Warning, "neither the plan nor these files have the GMSACredentialSpec; without it, and without " +
		"the webhook of windows-gmsa that reads it, containers run without the account",
		"check the name, and install windows-gmsa in the cluster"},
}
