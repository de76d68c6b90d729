package recipe

import (
	"fmt"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// ExporterPort is the default port of windows_exporter.
const ExporterPort = 9182

const (
	csiProxyService = "csi-proxy"
	// csiProxyPipe is the pipe of one of its API groups; they all appear together (csi-proxy v1.1.3
	// internal/server/server.go).
	csiProxyPipe    = `\\.\pipe\csi-proxy-filesystem-v1`
	exporterService = "windows_exporter"
)

// winAddons adds services besides those of Kubernetes. They do not depend on it and run before pods arrive.
func (b *build) winAddons() {
	if p := b.in.Settings.CSIProxy; p != nil {
		b.keeping(p.Keep, func() { b.winCSIProxy(p) })
	}
	if x := b.in.Settings.Exporter; x != nil {
		b.keeping(x.Keep, func() { b.winExporter(x) })
	}
}

func (b *build) winCSIProxy(p *CSIProxy) {
	program, log := winBin+`\csi-proxy.exe`, b.logFile(csiProxyService)
	b.program("csi_proxy_program", compat.CSIProxy, program, "csi-proxy "+p.Version, csiProxyService, "bin_dir")
	b.add("csi_proxy_log_dir", "directory", "Folder of csi-proxy's log",
		&kinds.Directory{Path: b.logDir(csiProxyService), Access: host.AccessPrivate}, "require")
	command := []string{program, "-windows-service", "-kubelet-path=" + winKubelet}
	for _, d := range p.WorkingDirs {
		command = append(command, "-working-dir="+d)
	}
	command = append(command, "-logtostderr=false", "-log_file="+log, "-log_file_max_size=100") // MiB; klog v2 klog.go
	b.add("csi_proxy", "service", "Service csi-proxy", &kinds.Service{
		ServiceConfig: winService(csiProxyService, "Storage for pods (csi-proxy)", command),
		Watch:         []string{program},
		Log:           log,
		Makes:         []string{b.logDir(csiProxyService)},
	}, "csi_proxy_program", "csi_proxy_log_dir", "kubelet_dir").Source = p.Source
	b.add("csi_proxy_ready", "pipe_ready", "csi-proxy answers",
		&kinds.PipeReady{Address: csiProxyPipe, Service: csiProxyService, Log: log}, "csi_proxy").Source = p.Source
}

func (b *build) winExporter(x *Exporter) {
	program, log := winBin+`\windows_exporter.exe`, b.logFile(exporterService)
	b.program("exporter_program", compat.WindowsExporter, program, "windows_exporter "+x.Version,
		exporterService, "bin_dir")
	b.add("exporter_log_dir", "directory", "Folder of windows_exporter's log",
		&kinds.Directory{Path: b.logDir(exporterService), Access: host.AccessPrivate}, "require")
	after := []string{"exporter_program", "exporter_log_dir"}
	command := []string{program, fmt.Sprintf("--web.listen-address=:%d", x.Port), "--log.file=" + log}
	collectors := x.Collectors
	if x.Textfile != "" {
		b.add("exporter_textfile_dir", "directory", "Folder of metrics in files", &kinds.Directory{Path: x.Textfile},
			"require").Source = x.Source
		after = append(after, "exporter_textfile_dir")
		if len(collectors) == 0 {
			collectors = []string{"[defaults]"}
		}
		collectors = append(collectors[:len(collectors):len(collectors)], "textfile")
	}
	if len(collectors) > 0 {
		command = append(command, "--collectors.enabled="+strings.Join(collectors, ","))
	}
	if x.Textfile != "" {
		command = append(command, "--collector.textfile.directories="+x.Textfile)
	}
	b.add("exporter", "service", "Service windows_exporter", &kinds.Service{
		ServiceConfig: winService(exporterService, "Metrics of the machine (windows_exporter)", command),
		Watch:         []string{program},
		Log:           log,
		Makes:         []string{b.logDir(exporterService)},
	}, after...).Source = x.Source
	b.add("exporter_ready", "http_ready", "windows_exporter is healthy",
		&kinds.HTTPReady{URL: fmt.Sprintf("http://127.0.0.1:%d/health", x.Port), Service: exporterService, Log: log},
		"exporter").Source = x.Source
}
