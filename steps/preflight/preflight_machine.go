package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

const (
	windowsVersionKey = `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	sessionManager    = host.CurrentControlSet + `Control\Session Manager`
)

// machineChecks are about the machine as such.
var machineChecks = []preflightCheck{
	{id: "operating-system", severity: steps.SeverityError,
		why: "the programs and settings of a node are those of its operating system",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			if want, have := s.q.OS, s.facts().OS; want != "" && want != have {
				return found("give the node a profile for its operating system",
					"the machine runs %s, the plan wants %s", have, want)
			}
			return nil, nil
		}},
	{id: "architecture", severity: steps.SeverityError, why: "programs of another architecture do not start",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			if want, have := s.q.Arch, s.facts().Arch; want != "" && want != have {
				return found("set the node's arch in the plan", "the machine's architecture is %s, the plan wants %s", have, want)
			}
			return nil, nil
		}},
	{id: "administrator", severity: steps.SeverityError,
		why: "services, the registry and the firewall can be changed by administrators only",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			if !s.facts().Admin {
				return found("connect as an administrator (Linux: root)", "the login has no administrator rights")
			}
			return nil, nil
		}},
	{id: "disk-space", severity: steps.SeverityError,
		why:  "programs and the first images need space, and a kubelet without space evicts its pods",
		look: diskSpace},
	// The Kubernetes documentation advises to reserve 2 GiB for Windows and its services.
	{id: "memory", severity: steps.SeverityWarning,
		why: "Windows and its services need 2 GiB, and pods get the rest",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			if have := s.facts().Memory; have > 0 && have < 4<<30-256<<20 { // firmware keeps some of it
				return found("give the machine 4 GiB or more", "the machine has %s of memory", host.FormatSize(have))
			}
			return nil, nil
		}},
	{id: "processors", severity: steps.SeverityWarning,
		why: "the node's own programs keep one processor busy while pods start",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			if have := s.facts().CPUs; have == 1 {
				return found("give the machine two processors or more", "the machine has one processor")
			}
			return nil, nil
		}},
	{id: "host-name", severity: steps.SeverityError,
		why: "programs put the machine's name into certificates, DNS and objects of the cluster, which accept only " +
			"names of RFC 1123", look: hostName},
	{id: "host-name-differs", severity: steps.SeverityNote,
		why: "logs and tools on the machine show another name than the cluster does",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			name, _, _ := strings.Cut(s.e.Node, ".")
			if s.q.Named {
				return nil, nil
			}
			if have := s.facts().Hostname; !strings.EqualFold(have, s.e.Node) && !strings.EqualFold(have, name) {
				return found(fmt.Sprintf("to have one name for both, say host { hostname = %q } in the plan, which "+
					"renames the machine, or rename the node", name),
					"the machine is named %s, its node %s", have, s.e.Node)
			}
			return nil, nil
		}},
}

func diskSpace(ctx context.Context, s *pass) ([]observed, error) {
	if s.q.MinFree == "" {
		return nil, nil
	}
	want, err := host.ParseSize(s.q.MinFree)
	if err != nil {
		return nil, err
	}
	path := cmp.Or(s.q.Path, s.facts().DataDir)
	have, err := s.r.FreeBytes(ctx, path)
	if err != nil || have >= want {
		return nil, err
	}
	return found("free space on that volume", "%s is free on the volume of %s, the plan wants %s", host.FormatSize(have),
		path, host.FormatSize(want))
}

// hostName wants labels of RFC 1123, in letters of either case, as the kubelet writes names in lower case; and
// at most 63 characters with the domain, the limit for values of Kubernetes labels.
func hostName(_ context.Context, s *pass) ([]observed, error) {
	name := s.facts().Hostname
	if s.q.Named {
		return nil, nil
	}
	why := ""
	if len(name) > 63 {
		why = fmt.Sprintf("has %d characters, more than 63", len(name))
	}
	for label := range strings.SplitSeq(name, ".") {
		why = cmp.Or(why, host.LabelFault(label))
	}
	if why == "" {
		return nil, nil
	}
	return found("give the machine another name: host { hostname = ... } in the plan", "the machine's name %q %s",
		name, why)
}

// windowsChecks are about Windows.
var windowsChecks = []preflightCheck{
	{id: "windows-build", severity: steps.SeverityError, os: "windows",
		why: "older builds lack calls that the node's network and runtime need",
		look: func(_ context.Context, s *pass) ([]observed, error) {
			if s.q.MinBuild == "" {
				return nil, nil
			}
			old, err := host.OlderBuild(s.facts().Build, s.q.MinBuild)
			if err != nil || !old {
				return nil, err
			}
			return found("update the operating system, or plan a version that supports this build",
				"the machine's build is %s, the lowest that works is %s", s.facts().Build, s.q.MinBuild)
		}},
	{id: "windows-edition", severity: steps.SeverityWarning, os: "windows",
		why: "Kubernetes is tested on Windows Server only", look: windowsEdition},
	{id: "update-missing", severity: steps.SeverityError, os: "windows",
		why: "the pod network needs what a cumulative update brought", look: updateMissing},
	{id: "update-broken", severity: steps.SeverityWarning, os: "windows",
		why: "a cumulative update is known to break nodes", look: updateBroken},
	{id: "pending-reboot", severity: steps.SeverityWarning, os: "windows",
		why:  "updates or features are half installed, and the reboot that completes them would take the node down",
		look: pendingReboot},
	{id: "feature-reboot", severity: steps.SeverityError, os: "windows",
		why:  "Windows may refuse to turn a feature on, or lose it at the reboot, while an earlier change waits for one",
		look: featureReboot},
	{id: "pending-rename", severity: steps.SeverityWarning, os: "windows",
		why: "the machine will have another name after its next reboot", look: pendingRename},
	{id: "containers-feature", severity: steps.SeverityError, os: "windows",
		why: "the feature Containers has the services that make containers and their networks", look: containersFeature},
	{id: "containers-services", severity: steps.SeverityError, os: "windows",
		why: "a container runtime cannot start a container without these services", look: containersServices},
	{id: "page-file", severity: steps.SeverityWarning, os: "windows",
		why: "Windows kills no process when memory runs out, so without a page file a full node hangs", look: pageFile},
	{id: "long-paths", severity: steps.SeverityNote, os: "windows",
		why: "paths in pod volumes come near to the usual limit of 260 characters",
		look: registryFlag(host.CurrentControlSet+`Control\FileSystem`, "LongPathsEnabled", 1, "long paths are off",
			`say host { long_paths = true } in the plan`)},
	{id: "automatic-updates", severity: steps.SeverityNote, os: "windows",
		why: "automatic updates reboot nodes that were not drained, and have broken pod networks",
		look: registryFlag(`HKLM\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU`, "NoAutoUpdate", 1,
			"no policy prevents automatic updates",
			`say host { windows_update = "off" } in the plan, and update by hand`)},
	{id: "defender-exclusions", severity: steps.SeverityNote, os: "windows",
		why:  "Defender reads every file of an image as it is unpacked, which has cost a third of a node's processor time",
		look: defenderExclusions},
	{id: "defender-protected", severity: steps.SeverityNote, os: "windows",
		why: "exclusions that are set on the machine, such as those of a plan, are not in force: Defender reads every " +
			"file of an image as it is unpacked", look: defenderProtected},
	{id: "folder-open", severity: steps.SeverityWarning, os: "windows",
		why: "whoever can rename a folder above the programs of the node's services can replace them, and they run " +
			"as SYSTEM", look: openFolders},
}

func windowsEdition(ctx context.Context, s *pass) ([]observed, error) {
	v, there, err := host.LookupRegistry(ctx, s.r, windowsVersionKey, "InstallationType")
	if err != nil || !there || strings.HasPrefix(v.String, "Server") { // "Server", "Server Core"
		return nil, err
	}
	return found("use a machine with Windows Server", "the machine's installation type is %q", v.String)
}

// revision is the machine's build with the fourth part, its update.
func (s *pass) revision(ctx context.Context) (build string, revision int, err error) {
	v, there, err := host.LookupRegistry(ctx, s.r, windowsVersionKey, "UBR")
	if err == nil && !there {
		err = fmt.Errorf(`%s\UBR does not exist`, windowsVersionKey)
	}
	return s.facts().Build, int(v.Number), err
}

func updateMissing(ctx context.Context, s *pass) ([]observed, error) {
	want, ok := s.q.MinRevisions[s.facts().Build]
	if !ok {
		return nil, nil
	}
	build, have, err := s.revision(ctx)
	if err != nil || have >= want {
		return nil, err
	}
	return found("install the newest cumulative update",
		"the machine's build is %s.%d, the lowest that works is %s.%d", build, have, build, want)
}

func updateBroken(ctx context.Context, s *pass) ([]observed, error) {
	if len(s.q.BadRevisions) == 0 {
		return nil, nil
	}
	build, have, err := s.revision(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(s.q.BadRevisions)) {
		if of, first, last, ok := splitRevisions(key); ok && of == build && first <= have && have <= last {
			return found("install a later cumulative update", "the machine's build is %s.%d: %s", build, have,
				s.q.BadRevisions[key])
		}
	}
	return nil, nil
}

// Updates finds what is wrong with the machine's cumulative update: too old for the pod network, or one that is
// known to break nodes. It asks the machine, whose update may have changed since it joined.
func Updates(ctx context.Context, r host.Reader, e *steps.Env, q *Preflight) (out []steps.Finding, err error) {
	for _, look := range []func(context.Context, *pass) ([]observed, error){updateMissing, updateBroken} {
		list, wrong := look(ctx, &pass{q: q, r: r, e: e})
		for _, o := range list {
			out = append(out, steps.Finding{Observed: o.what, Remedy: o.remedy})
		}
		err = errors.Join(err, wrong)
	}
	return out, err
}

// splitRevisions reads "10.0.20348.2582" or "10.0.20348.2582-2654", both ends included.
func splitRevisions(key string) (build string, first, last int, ok bool) {
	i := strings.LastIndex(key, ".")
	if i < 0 {
		return "", 0, 0, false
	}
	from, to, isRange := strings.Cut(key[i+1:], "-")
	if !isRange {
		to = from
	}
	first, err := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	return key[:i], first, last, err == nil && err2 == nil && first <= last
}

// pendingReboot reads the three places where Windows notes a pending reboot: servicing, Windows Update, and
// files to rename at boot.
func pendingReboot(ctx context.Context, s *pass) ([]observed, error) {
	by, err := host.ServicingWaits(ctx, s.r)
	if err != nil {
		return nil, err
	}
	v, _, err := host.LookupRegistry(ctx, s.r, sessionManager, "PendingFileRenameOperations")
	if err != nil {
		return nil, err
	}
	if len(v.Strings) > 0 {
		by = append(by, "files that are in use")
	}
	if len(by) == 0 {
		return nil, nil
	}
	slices.Sort(by)
	return found("reboot the machine before it joins", "a reboot is pending for %s", strings.Join(by, ", "))
}

// featureReboot is about a machine that nodejoin may not reboot. If it may, a step of its own reboots it
// first (Reboot.FeaturesAfter).
func featureReboot(ctx context.Context, s *pass) ([]observed, error) {
	why, err := host.FeaturesWait(ctx, s.r, s.q.Features)
	if err != nil || len(why) == 0 {
		return nil, err
	}
	return found(`reboot the machine, or let the plan do it: host { reboot = "auto" }`,
		"the plan turns on features (%s), and Windows waits for a reboot for %s", strings.Join(s.q.Features, ", "),
		strings.Join(why, ", "))
}

func pendingRename(ctx context.Context, s *pass) ([]observed, error) {
	if s.q.Named {
		return nil, nil
	}
	const key = host.CurrentControlSet + `Control\ComputerName\`
	next, there, err := host.LookupRegistry(ctx, s.r, key+"ComputerName", "ComputerName")
	if err != nil || !there {
		return nil, err
	}
	now, there, err := host.LookupRegistry(ctx, s.r, key+"ActiveComputerName", "ComputerName")
	if err != nil || !there || strings.EqualFold(next.String, now.String) {
		return nil, err
	}
	return found("reboot the machine before it joins", "the machine is named %s and will be %s", now.String, next.String)
}

// containerServices are the services of the feature Containers: the Host Compute Service and the Host
// Networking Service.
var containerServices = []string{"vmcompute", "hns"}

// serviceStart is the start type of a service in the registry, as the service manager
// keeps it: 4 is disabled (winsvc.h, SERVICE_DISABLED).
func (s *pass) serviceStart(ctx context.Context, name string) (start uint64, there bool, err error) {
	v, there, err := host.LookupRegistry(ctx, s.r, host.CurrentControlSet+`Services\`+name, "Start")
	return v.Number, there, err
}

const serviceDisabled = 4

func containersFeature(ctx context.Context, s *pass) ([]observed, error) {
	var missing []string
	for _, name := range containerServices {
		_, there, err := s.serviceStart(ctx, name)
		if err != nil {
			return nil, err
		}
		if !there {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	return found("install the Windows feature Containers and reboot the machine", "the machine has no service %s",
		strings.Join(missing, " and no service "))
}

func containersServices(ctx context.Context, s *pass) ([]observed, error) {
	var out []observed
	for _, name := range containerServices {
		start, _, err := s.serviceStart(ctx, name)
		if err != nil {
			return out, err
		}
		if start == serviceDisabled {
			out = append(out, observed{fmt.Sprintf("the service %s is disabled", name), "set the start type of service " +
				name + " to manual"})
		}
	}
	return out, nil
}

func pageFile(ctx context.Context, s *pass) ([]observed, error) {
	v, there, err := host.LookupRegistry(ctx, s.r, sessionManager+`\Memory Management`, "PagingFiles")
	if err != nil || there && len(slices.DeleteFunc(slices.Clone(v.Strings), func(l string) bool {
		return strings.TrimSpace(l) == ""
	})) > 0 {
		return nil, err
	}
	return found(`say host { page_file = 8096 } in the plan, and reboot the machine`, "the machine has no page file")
}

// registryFlag checks that a value is the wanted number.
func registryFlag(key, name string, want uint64, otherwise, remedy string) func(context.Context, *pass) ([]observed,
	error) {
	return func(ctx context.Context, s *pass) ([]observed, error) {
		v, _, err := host.LookupRegistry(ctx, s.r, key, name)
		if err != nil || v.Number == want {
			return nil, err
		}
		return found(remedy, "%s", otherwise)
	}
}

// defenderExclusions: Defender is the service WinDefend; its exclusions are below its own key or that of
// its policies.
func defenderExclusions(ctx context.Context, s *pass) ([]observed, error) {
	start, there, err := s.serviceStart(ctx, "WinDefend")
	if err != nil || !there || start == serviceDisabled {
		return nil, err
	}
	runtime := "containerd"
	if slices.Contains(s.q.Services, "docker") || slices.Contains(s.q.Required, "docker") {
		runtime = "docker"
	}
	for _, key := range []string{`HKLM\SOFTWARE\Microsoft\Windows Defender\Exclusions\`,
		`HKLM\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions\`} {
		for _, sub := range []string{"Processes", "Paths"} {
			values, _, err := host.LookupRegistryNames(ctx, s.r, key+sub)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(strings.ToLower(v), runtime) }) {
				return nil, nil
			}
		}
	}
	return found("say host { defender_exclusions = true } in the plan", "Defender runs and scans %s", runtime)
}

// defenderProtected: learn.microsoft.com, "Troubleshoot problems with tamper protection", has the value.
func defenderProtected(ctx context.Context, s *pass) ([]observed, error) {
	start, there, err := s.serviceStart(ctx, "WinDefend")
	if err != nil || !there || start == serviceDisabled {
		return nil, err
	}
	v, _, err := host.LookupRegistry(ctx, s.r, `HKLM\SOFTWARE\Microsoft\Windows Defender\Features`, "TPExclusions")
	if err != nil || v.Number != 1 {
		return nil, err
	}
	return found("set the exclusions where the machine is managed (Intune, Configuration Manager)",
		"tamper protection guards the exclusions of Defender (TPExclusions is 1)")
}
