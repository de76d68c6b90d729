package kinds_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// serviceScenarios are those of services and what their programs make.
func serviceScenarios(art stepstest.Memory) []scenario {
	containerd := func(args ...string) steps.Spec {
		s := stepstest.Service("containerd", `C:\c\containerd.exe`, args...)
		s.Watch = []string{`C:\c\config.toml`}
		return stepstest.Spec("service", "containerd", s)
	}
	dependent := stepstest.Service("app", `C:\k\app.exe`)
	dependent.DependsOn = []string{"containerd"}
	pull := func(name string) steps.Spec {
		return stepstest.Spec("image", "image", &kinds.Image{Address: `\\.\pipe\containerd-containerd`, Image: name})
	}
	runtime := func(url, conf string, args ...string) []steps.Spec {
		return []steps.Spec{containerdArchive(art, url), containerdConfig(conf),
			stepstest.Spec("file", "app_exe", &kinds.File{Path: `C:\k\app.exe`, Content: "app"}), containerd(args...),
			stepstest.Spec("pipe_ready", "ready", &kinds.PipeReady{Address: `\\.\pipe\containerd-containerd`,
				GRPCMethod: "/runtime.v1.RuntimeService/Version", Service: "containerd"}),
			stepstest.Spec("service", "app", dependent)}
	}
	stopped := stepstest.Service("idle", `C:\k\idle.exe`)
	stopped.State, stopped.Start = host.ServiceStopped, host.StartManual
	worker := func(change func(*kinds.Service)) []steps.Spec {
		s := stepstest.Service("worker", `C:\k\worker.exe`)
		change(s)
		return []steps.Spec{stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\worker.exe`, Content: "w"}),
			stepstest.Spec("service", "worker", s)}
	}
	valued := func(v string) []steps.Spec {
		return worker(func(s *kinds.Service) { s.RestartOn = []string{"uid", v} })
	}
	networked := func(name string) []steps.Spec {
		return worker(func(s *kinds.Service) { s.HNSNetworks = []string{name} })
	}
	nssm := func(log string) *kinds.Service {
		s := stepstest.Service("worker", `C:\k\nssm.exe`)
		s.Parameters = []kinds.ServiceParameter{{Name: "Application", Type: "expand_string", String: `C:\k\worker.exe`},
			{Name: "AppStderr", Type: "expand_string", String: log}, {Name: `AppExit\`, Type: "string", String: "Restart"},
			{Name: "AppPriority", Type: "dword", Number: 0x8000}, {Name: "AppEnvironmentExtra", Type: "multi_string",
				Strings: []string{"A=b"}}}
		return s
	}
	wrapper := func(log string) []steps.Spec {
		return []steps.Spec{stepstest.Spec("file", "nssm_exe", &kinds.File{Path: `C:\k\nssm.exe`, Content: "nssm"}),
			stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\worker.exe`, Content: "w"}),
			stepstest.Spec("service", "worker", nssm(log))}
	}
	logsTo := func(log string) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			runs("worker")(t, h)
			have, err := h.RegistryValue(t.Context(), `HKLM\SYSTEM\CurrentControlSet\Services\worker\Parameters`, "AppStderr")
			if err != nil || have.String != log {
				t.Errorf("the log is %q, %v; want %q", have.String, err, log)
			}
		}
	}

	return []scenario{
		{name: "image fresh", list: append(runtime("http://m/1.tgz", "v1"), pull("registry.example/app:1")),
			verify: runs("containerd", "app")},
		{name: "image of another name", before: append(runtime("http://m/1.tgz", "v1"), pull("registry.example/app:1")),
			list: append(runtime("http://m/1.tgz", "v1"), pull("registry.example/app:2")), verify: runs("containerd", "app")},
		{name: "runtime fresh", list: runtime("http://m/1.tgz", "v1"), verify: runs("containerd", "app")},
		{name: "runtime upgraded", before: runtime("http://m/1.tgz", "v1"),
			list: runtime("http://m/2.tgz", "v2", "--debug"), verify: runs("containerd", "app")},
		{name: "runtime reconfigured", before: runtime("http://m/1.tgz", "v1"),
			list: runtime("http://m/1.tgz", "v2"), verify: runs("containerd", "app")},
		{name: "runtime stopped", before: runtime("http://m/1.tgz", "v1"),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.StopService(t.Context(), "app"))
				stepstest.Must(t, h.StopService(t.Context(), "containerd"))
			}, list: runtime("http://m/1.tgz", "v1"), verify: runs("containerd", "app")},
		{name: "service kept stopped",
			list: []steps.Spec{stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\idle.exe`, Content: "i"}),
				stepstest.Spec("service", "idle", stopped)}},
		{name: "service stopped",
			before: []steps.Spec{stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\idle.exe`, Content: "i"}),
				stepstest.Spec("service", "idle", stepstest.Service("idle", `C:\k\idle.exe`))},
			list: []steps.Spec{stepstest.Spec("service", "idle", stopped)}},
		{name: "service running", before: runtime("http://m/1.tgz", "v1"),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.StopService(t.Context(), "app"))
				stepstest.Must(t, h.StopService(t.Context(), "containerd"))
			}, list: []steps.Spec{stepstest.Spec("service_running", "run", &kinds.ServiceRunning{Name: "app"})},
			verify: runs("containerd", "app")},
		{name: "service for other values", before: valued("a"), list: valued("b"), verify: runs("worker")},
		{name: "service makes another network", before: networked("net-a"), drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.(*sandbox.Host).PutHNSNetwork(t.Context(),
				host.HNSNetwork{ID: "1", Name: "net-a", Type: "Overlay"}))
			stepstest.Must(t, h.(*sandbox.Host).PutHNSNetwork(t.Context(),
				host.HNSNetwork{ID: "2", Name: "theirs", Type: "NAT"}))
		}, list: networked("net-b"), verify: func(t *testing.T, h host.Host) {
			runs("worker")(t, h)
			if _, err := h.HNSNetwork(t.Context(), "net-a"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the former network: %v", err)
			}
			if _, err := h.HNSNetwork(t.Context(), "theirs"); err != nil {
				t.Error(err)
			}
		}},
		{name: "service restarted by hand with an edited file", before: runtime("http://m/1.tgz", "v1"),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, `C:\c\config.toml`, "edited")
				for _, err := range []error{h.StopService(t.Context(), "app"),
					h.StopService(t.Context(), "containerd"), h.StartService(t.Context(), "containerd"),
					h.StartService(t.Context(), "app")} {
					stepstest.Must(t, err)
				}
			}, list: runtime("http://m/1.tgz", "v1"), verify: func(t *testing.T, h host.Host) {
				runs("containerd", "app")(t, h)
				rec := stepstest.LoadRecord(t, h)
				for _, name := range []string{"containerd", "app"} {
					if svc, err := h.Service(t.Context(), name); err != nil || name == "containerd" &&
						svc.PID != rec.Starts[name].PID {
						t.Errorf("%s runs as process %d, %v; nodejoin started %+v: it still runs from the file that "+
							"was edited", name, svc.PID, err, rec.Starts[name])
					}
				}
			}},
		{name: "service that makes something in the kernel", os: "linux", list: inKernel(),
			verify: func(t *testing.T, h host.Host) {
				runs("containerd")(t, h)
				links, err := h.Interfaces(t.Context())
				if chains, err2 := h.FilterChains(t.Context()); err != nil || err2 != nil ||
					!slices.Contains(links, "cni0") || len(chains) != 1 {
					t.Errorf("interfaces %v, %v; chains %v, %v", links, err, chains, err2)
				}
			}},
		{name: "wrapped service fresh", list: wrapper(`C:\k\worker.log`), verify: logsTo(`C:\k\worker.log`)},
		{name: "wrapped service with another log", before: wrapper(`C:\k\old.log`), list: wrapper(`C:\k\worker.log`),
			verify: logsTo(`C:\k\worker.log`)},
		{name: "wrapped service drifted", before: wrapper(`C:\k\worker.log`), drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t,
				h.SetRegistryValue(t.Context(), `HKLM\SYSTEM\CurrentControlSet\Services\worker\Parameters`,
					"AppStderr", host.RegistryValue{Type: "string", String: "NUL"}))
			stepstest.Must(t,
				h.DeleteRegistryValue(t.Context(), `HKLM\SYSTEM\CurrentControlSet\Services\worker\Parameters\AppExit`, ""))
		}, list: wrapper(`C:\k\worker.log`), verify: logsTo(`C:\k\worker.log`)},
		{name: "service made a wrapped one",
			before: []steps.Spec{wrapper("")[1],
				stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`))},
			list: wrapper(`C:\k\worker.log`), verify: logsTo(`C:\k\worker.log`)},
	}
}
