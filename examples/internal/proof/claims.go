package proof

// Claim is a behaviour of Windows that nodejoin rests on and that was read, not seen.
type Claim struct {
	What string
	// Tests fail without the code for it; SelfTest is the area that asks a machine. "" = none: Why says why.
	Tests    []string
	SelfTest string
	Why      string
}

// Claims are numbered from 1: selftest.Result.Claim. The order never changes.
var Claims = []Claim{
	{What: "HNS refuses a network that names an adapter `vEthernet (...)`, with 0x803b0006", SelfTest: "network",
		Tests: []string{"TestSwitch", "TestNetworks", "TestSwitchesOfOthers"}},
	{What: "QueryServiceConfig fails for some services of others (15100, access denied)", SelfTest: "services",
		Tests: []string{"TestForeignServicesThatCannotBeRead"}},
	{What: "With the first switch the profile of the network can become Public, for which the rule of OpenSSH does " +
		"not count", Tests: []string{"TestWayIn", "TestSSHOfPublicNetworks", "TestFindables"},
		Why: "needs a machine that can lose its connection; a join asks it: `windows-vm`"},
	{What: "sshd is started by hand after Add-WindowsCapability", SelfTest: "ssh",
		Tests: []string{"TestFindables", "TestManualSSH"}},
	{What: "HNS answers with errors while it changes: lists race with deletion", SelfTest: "network",
		Tests: []string{"TestHNS", "TestDeleteHNSNetwork", "TestHNSGateOutlivesErrors", "TestHNSNetworkAnswerLost"}},
	{What: "A query of HCN v2 may leave out the VSID", SelfTest: "network",
		Tests: []string{"TestHNS", "TestHNSGateWithoutVNI", "TestJoinKubeconfig"}},
	{What: "A network logon, as over SSH, needs SeRemoteShutdownPrivilege to reboot", SelfTest: "shutdown",
		Tests: []string{"TestReboot"}},
	{What: "Output of a program of Win32-OpenSSH is an overlapped pipe of 4096 bytes; a crash of Go hangs on it",
		SelfTest: "ssh",
		Tests:    []string{"TestSelfTest", "TestCrashGoesToAFile", "TestAgentCrashUnderWine", "TestBuiltWith"}},
	{What: "Without the feature Containers HNS answers 0x80040154", SelfTest: "network",
		Tests: []string{"TestNoHNS", "TestSilentHNS"}},
	{What: "A restart of HNS forgets networks, endpoints and policies of a running node",
		Tests: []string{"TestDayOfFaults", "TestPodsEndWithTheirNetwork", "TestPodsEndWithTheirEndpoints",
			"TestEndpointsLostInASharedProcess", "TestServiceRestartsWhenever", "TestSelfTest", "TestReboot"},
		Why: "it would interrupt the machine's pods; a join asks it: `windows`, `windows-vm`"},
	{What: "A network that is made again under the adapter of the deleted one is refused for seconds",
		SelfTest: "network", Tests: []string{"TestFormerNetwork", "TestSwitchesOfOthers", "TestHNSNetworkReplaced"}},
	{What: "A step of the clock moves the boot time", SelfTest: "machine",
		Tests: []string{"TestBootTimeOutlivesClockSteps"}},
	{What: "bash as the default shell of OpenSSH removes backslashes", SelfTest: "ssh",
		Tests: []string{"TestBashAsDefaultShell", "TestSession"}},
	{What: "PowerShell as the default shell passes input and output on, after a banner of its profile", SelfTest: "ssh",
		Tests: []string{"TestSelfTest", "TestSession"}},
	{What: "containerd does not rotate its log",
		Tests: []string{"TestCutLog", "TestEndlessLogs", "TestContainerdLogEnds", "TestLogsUnderWine"},
		Why:   "it is containerd's, on every system"},
	{What: "A file that somebody reads cannot be replaced for a moment", SelfTest: "files",
		Tests: []string{"TestHolderIsRead", "TestHeldFileIsReplaced"}},
	{What: "DISM says 0x80070bc2 or 3010 where a reboot is needed, 0x800f080c for an unknown feature",
		SelfTest: "features", Tests: []string{"TestResult", "TestFeaturesAsked"}},
	{What: "Settings can be taken and not be in force: group policy, tamper protection", SelfTest: "firewall",
		Tests: []string{"TestSymptoms", "TestFindables"}},
	{What: "HNS gives a network its management address later", SelfTest: "network",
		Tests: []string{"TestNetwork", "TestSwitch"}},
	{What: "The ssh-agent of Windows listens on a pipe and sets no variable",
		Tests: []string{"TestWindowsAgent", "TestControllerUnderWine"},
		Why:   "it is about the machine that nodejoin runs on, not about a node"},
	{What: "A virtual switch swallows the routes that programs have added over its adapter",
		Tests: []string{"TestMetadataRoutes", "TestMetadataRoutesInterrupted"},
		Why:   "needs a machine of a cloud, and one that can lose its connection"},
	{What: "The job of a WinRM shell lets processes out, and its end kills the others",
		Tests: []string{"TestOutside", "TestOutsideUnderWine", "TestWinRMCut", "TestJoinWinRM"},
		Why:   "a run over WinRM asks it, and says so where the job lets none out"},
}
