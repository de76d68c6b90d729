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

// As is the argument struct of a spec, if it is of the kind that has that struct.
func As[S any](s Spec) (*S, bool) {
	v, _, err := Kinds().Decode(s)
	out, ok := v.(*S)
	return out, ok && err == nil
}

// MakesOf is what a step makes on a machine of the OS.
func MakesOf(s Spec, os string) Thing {
	v, k, err := Kinds().Decode(s)
	if err != nil || k.Makes == nil {
		return Thing{}
	}
	return k.Makes(v, os)
}

// GateOf is the service that a step waits for as a gate; "" = it is none.
func GateOf(s Spec) string {
	v, k, err := Kinds().Decode(s)
	if err != nil || k.Gate == nil {
		return ""
	}
	return k.Gate(v)
}
