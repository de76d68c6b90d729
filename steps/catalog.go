package steps

// Kinds lists every step kind, sorted by name. To add one, write its file and name it here.
func Kinds() Catalog {
	return Catalog{
		archiveKind,
		binaryKind,
		bootstrapTokenKind,
		cniConfFirstKind,
		credentialsReadyKind,
		directoryKind,
		dynamicPortsKind,
		envKind,
		featureKind,
		fileKind,
		fileReadyKind,
		firewallRuleKind,
		flannelAgreesKind,
		formerSettingsKind,
		hnsNetworkKind,
		hnsReadyKind,
		hostNameKind,
		httpReadyKind,
		kernelModuleKind,
		kubeadmJoinKind,
		kubeconfigKind,
		manifestKind,
		nodeJoinedKind,
		nodeLabelsKind,
		nodeNameFreeKind,
		nodeReadyKind,
		nodeRegisteredKind,
		nodeSeenKind,
		nodeTaintsKind,
		pipeReadyKind,
		preflightKind,
		rebootKind,
		registryKind,
		reservedPortsKind,
		serviceKind,
		serviceAccountKind,
		serviceAccountTokenKind,
		serviceRunningKind,
		servingCertificateKind,
		sourceVIPKind,
		sysctlKind,
		trustedCAKind,
	}
}

// Lookup finds a kind by name.
func Lookup(name string) (Kind, bool) { return Kinds().Lookup(name) }
