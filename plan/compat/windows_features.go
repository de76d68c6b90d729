package compat

import "fmt"

// WindowsFeature is a feature of the Windows network stack that a plan can use.
type WindowsFeature string

const (
	// VXLAN networks (win-overlay, kube-proxy with a source VIP)
	Overlay             WindowsFeature = "overlay"
	DSR                 WindowsFeature = "dsr"                // direct server return in kube-proxy
	DualStack           WindowsFeature = "dual_stack"         // IPv4 and IPv6 on l2bridge
	DualStackOverlay    WindowsFeature = "dual_stack_overlay" // the same on overlay
	IPv6Only            WindowsFeature = "ipv6_only"
	SessionAffinity     WindowsFeature = "session_affinity"     // Service sessionAffinity: ClientIP
	AffinityTimeout     WindowsFeature = "affinity_timeout"     // its timeoutSeconds
	PreserveDestination WindowsFeature = "preserve_destination" // annotation preserve-destination: "true", with DSR
	VXLANPort           WindowsFeature = "vxlan_port"           // a VXLAN port other than 4789
	LocalHostRoute      WindowsFeature = "local_host_route"     // from the node to its own pods through a host route
	HostProcess         WindowsFeature = "host_process"         // HostProcess containers
)

// featureRow says that the feature works from build `since` on; on that build from revision `revision` on (0:
// from the first), which update KB brought. A zero since means never.
type featureRow struct {
	since    int
	revision int
	kb       string
	source   string
}

// HNS versions are those of github.com/Microsoft/hcsshim hcn/hcnglobals.go,
// against which kube-proxy decides. Which build has which HNS version is not
// published; the builds are from the Kubernetes documentation and field reports.
// The revision of each KB is the one of Microsoft's update history (not verified).
var featureRows = map[WindowsFeature]featureRow{
	Overlay: {since: 17763, revision: 379, kb: "KB4489899",
		source: "Kubernetes documentation, Windows networking: overlay needs Windows Server 2019 with KB4489899; hcsshim " +
			"RemoteSubnetVersion HNS 9.2"},
	DSR: {since: 17763, revision: 1554, kb: "KB4580390",
		source: "Calico for Windows start script: KB4580390 (October 2020) on Windows Server 2019; hcsshim DSRVersion HNS " +
			"9.3 to 9.x and 10.2; the documentation of 1.20 asks for version 2004"},
	DualStack: {since: 19041, revision: 610,
		source: "Kubernetes 1.20 documentation: 10.0.19041.610; hcsshim IPv6DualStackVersion HNS 11.10; later " +
			"documentation names Windows Server 2019 with a fix (not verified)"},
	DualStackOverlay: {source: "Kubernetes documentation, Windows networking: overlay networks support IPv4 only"},
	IPv6Only:         {source: "Kubernetes documentation, Windows networking: no IPv6-only clusters"},
	SessionAffinity: {since: 20348,
		source: "Kubernetes documentation, service networking on Windows; hcsshim SessionAffinityVersion HNS 12.0; " +
			"Insider build 19551 in the documentation of 1.20"},
	AffinityTimeout: {source: "Kubernetes documentation, service networking on Windows: " +
		"sessionAffinityConfig.clientIP.timeoutSeconds is not supported"},
	PreserveDestination: {since: 18362,
		source: "Kubernetes documentation, service networking on Windows: version 1903 and later"},
	VXLANPort: {since: 18362,
		source: "hcsshim VxlanPortVersion HNS 10.3; the documentation of OpenShift's machine config operator names " +
			"KB4565351 for 1809 (not verified)"},
	LocalHostRoute: {since: 18321, source: "flannel pkg/backend/vxlan/device_windows.go: build 18321"},
	HostProcess: {since: 17763,
		source: "Kubernetes documentation, HostProcess pods: Windows Server 2019 and later, containerd 1.6"},
}

// CheckWindowsFeature reports whether a Windows build has a feature: OK, NotYet (a later build or an update
// has it; Instead says which), Refused (no build has it), Unknown (no such feature or build). A build without
// a revision, "10.0.17763", is OK if an update is needed, with the update in Instead: only the host shows
// whether it is installed.
func CheckWindowsFeature(feature WindowsFeature, build string) Verdict {
	v := Verdict{Name: string(feature)}
	row, known := featureRows[feature]
	if !known {
		v.Status, v.Why = Unknown, fmt.Sprintf("the tables do not include the Windows feature %q", string(feature))
		return v
	}
	v.Source = row.source
	n, revision, ok := buildAndRevision(build)
	if !ok {
		v.Status, v.Why, v.Instead = Unknown, fmt.Sprintf("%q is not a Windows build; write it like 10.0.20348", build),
			nearBuild(build)
		return v
	}
	if newest := releases[len(releases)-1].Number; n > newest {
		v.Assumed = fmt.Sprintf("Windows build %d is newer than the tables of this nodejoin, which treats it as %d", n,
			newest)
	}
	if row.since == 0 {
		v.Status, v.Why = Refused, "no Windows build supports it"
		return v
	}
	v.Since = fmt.Sprintf("10.0.%d", row.since)
	if n < row.since {
		v.Status = NotYet
		v.Why = fmt.Sprintf("Windows has it since build %d", row.since)
		v.Instead = "a host with build " + v.Since + " or later"
		return v
	}
	if n != row.since || row.revision == 0 {
		return v
	}
	update := fmt.Sprintf("10.0.%d.%d or later", n, row.revision)
	if row.kb != "" {
		update += " (" + row.kb + ")"
	}
	switch {
	case revision < 0:
		v.Instead = update
	case revision < row.revision:
		v.Status, v.Instead = NotYet, update
		v.Why = fmt.Sprintf("build %s lacks an update that it needs", build)
	}
	return v
}

// FeatureSince returns the first build with a feature, "10.0.19041", and the revision of it that is needed
// (0: none); "" if no build has it.
func FeatureSince(feature WindowsFeature) (build string, revision int) {
	row := featureRows[feature]
	if row.since == 0 {
		return "", 0
	}
	return fmt.Sprintf("10.0.%d", row.since), row.revision
}

// KnownIssue is a defect of a build that a plan should warn about. It appeared with the revision From (0: the
// first) and is fixed by the revision Fixed (0: not fixed).
type KnownIssue struct {
	Build       int
	From, Fixed int
	What        string
	Fix         string
	// Network is the flannel backend it concerns, "vxlan" or "host-gw"; "" for all.
	Network string
	Source  string
}

var knownIssues = []KnownIssue{
	{Build: 20348, From: 2582, Fixed: 2655,
		What: "cumulative update KB5040437 (July 2024) breaks the host network service", Fix: "a later cumulative update",
		Source: "microsoft/Windows-Containers#516"},
	{Build: 26100, Fixed: 6899, What: "overlay networks need the cumulative update of October 2025",
		Fix: "the cumulative update of October 2025 or later", Network: "vxlan", Source: "rancher/rancher#50915"},
	{Build: 17763, What: "containers on containerd could not use shares with a gMSA before later updates",
		Fix: "current cumulative updates", Source: "microsoft/Windows-Containers#44"},
}

// KnownIssues returns the defects of a build for a flannel backend; nil if build is not a build. For a build
// without a revision, "10.0.20348", they are those that the machine may have. The revisions are those of
// Microsoft's update history for the updates that the sources name (not verified).
func KnownIssues(build, backend string) []KnownIssue {
	n, revision, ok := buildAndRevision(build)
	if !ok {
		return nil
	}
	var out []KnownIssue
	for _, k := range knownIssues {
		if k.Build == n && (k.Network == "" || k.Network == backend) &&
			(revision < 0 || revision >= k.From && (k.Fixed == 0 || revision < k.Fixed)) {
			out = append(out, k)
		}
	}
	return out
}

// Updates returns what a pod network requires of a machine's updates: the lowest revision of a build, and
// what is wrong with others ("10.0.20348.2582-2654", both included). The backend is flannel's, "" = another
// network. A defect that no update is known to end says nothing of a machine.
func Updates(backend string) (lowest map[string]int, broken map[string]string) {
	lowest, broken = map[string]int{}, map[string]string{}
	if row := featureRows[Overlay]; backend == "vxlan" && row.revision > 0 {
		lowest[fmt.Sprintf("10.0.%d", row.since)] = row.revision
	}
	for _, k := range knownIssues {
		if k.Fixed > 0 && (k.Network == "" || k.Network == backend) {
			broken[fmt.Sprintf("10.0.%d.%d-%d", k.Build, k.From, k.Fixed-1)] = k.What + " (" + k.Source + ")"
		}
	}
	return lowest, broken
}

// Limits of VXLAN on Windows (flannel v0.28.4 Documentation/backends.md: the port must
// be 4789, the VNI greater than or equal to 4096).
const (
	WindowsMinVNI    = 4096
	MaxVNI           = 1<<24 - 1
	WindowsVXLANPort = 4789
)
