// Package kinds holds the step kinds, one file each with its arguments, check, apply and undo, and lists them.
package kinds

import (
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/preflight"
)

// Catalog lists every step kind, sorted by name. To add one, write its file and name it here.
func Catalog() steps.Catalog { return catalog }

var catalog = steps.Catalog{
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
	hnsNetworkKind,
	hnsReadyKind,
	hostNameKind,
	httpReadyKind,
	imageKind,
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
	preflight.PreflightKind,
	rebootKind,
	registryKind,
	reservedPortsKind,
	serviceKind,
	serviceAccountKind,
	serviceAccountTokenKind,
	serviceRunningKind,
	servingCertificateKind,
	sourceVIPKind,
	sshServerKind,
	sysctlKind,
	tokenFileKind,
	trustedCAKind,
}

// Undos is the undo of each prefix that a kind claims things with.
func Undos() steps.Undos { return undos }

var undos = steps.UndosOf(catalog)

// Lookup finds a kind by name.
func Lookup(name string) (steps.Kind, bool) { return Catalog().Lookup(name) }

// As is the argument struct of a spec, if it is of the kind that has that struct.
func As[S any](s steps.Spec) (*S, bool) {
	if k, ok := Lookup(s.Kind); !ok {
		return nil, false
	} else if _, is := k.New().(*S); !is {
		return nil, false
	}
	v, _, err := Catalog().Decode(s)
	out, ok := v.(*S)
	return out, ok && err == nil
}

// Of is the kind of a spec; one that is not in the catalog has no properties.
func Of(s steps.Spec) steps.Kind {
	k, _ := Lookup(s.Kind)
	return k
}

// Installs is the artifact that a step puts on the machine.
func Installs(s steps.Spec) (src steps.Source, ok bool) {
	if k := Of(s); k.Installs != nil {
		v, _, err := Catalog().Decode(s)
		if err == nil {
			return k.Installs(v), true
		}
	}
	return steps.Source{}, false
}

// Runs is the service that a step registers.
func Runs(s steps.Spec) (service host.ServiceConfig, ok bool) {
	if k := Of(s); k.Runs != nil {
		v, _, err := Catalog().Decode(s)
		if err == nil {
			return k.Runs(v), true
		}
	}
	return host.ServiceConfig{}, false
}

// Makes is what a step makes on a machine of the OS.
func Makes(s steps.Spec, os string) steps.Thing {
	v, k, err := Catalog().Decode(s)
	if err != nil || k.Makes == nil {
		return steps.Thing{}
	}
	return k.Makes(v, os)
}

// Gate is the service that a step waits for as a gate; "" = it is none.
func Gate(s steps.Spec) string {
	v, k, err := Catalog().Decode(s)
	if err != nil || k.Gate == nil {
		return ""
	}
	return k.Gate(v)
}
