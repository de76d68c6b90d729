package steps

import "slices"

// Kinds lists every step kind, sorted by name. To add one, write its file and name it here.
func Kinds() []Kind {
	return []Kind{
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
func Lookup(name string) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}
