package plan

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
)

// machineSettings sets the recipe's input for the machine itself.
func (c *compiler) machineSettings(m *block.Machine) {
	w := &settings{m: m, cluster: c.Cluster, place: c.Files.Place, at: map[string]hcl.Range{}}
	for _, key := range slices.Sorted(maps.Keys(m.Said)) {
		b := m.Said[key]
		first := len(w.Steps)
		switch name, _, _ := strings.Cut(key, " "); name {
		case "proxy":
			w.proxy(b)
		case "firewall":
			w.firewall(b)
		case "host":
			w.host(b)
		case "services":
			w.services(b)
		case "csi_proxy":
			w.csiProxy(b)
		case "windows_exporter":
			w.exporter(b)
		case "guard":
			w.guard(b)
		case "follow":
			w.follow(b)
		case "file":
			w.file(key[len("file "):], b)
		case "images":
			w.Images = &recipe.Images{Pull: b.Texts("pull"), Source: w.place(b.At)}
		case "credential_provider":
			w.credentialProvider(key[len("credential_provider "):], b)
		}
		for i := range w.Steps[first:] {
			w.Steps[first+i].Keep = b.Keep()
		}
	}
	m.RecipeSettings, m.SettingAt = w.Settings, w.at
}

func (w *settings) file(name string, b block.SettingBlock) {
	w.add(b.At, recipe.ManagedFile(name, kinds.File{Path: b.Text("path"), Content: b.Text("content"),
		Access: host.Access(b.Text("access")), Sensitive: b.Args["content"].Secret}))
}

func (w *settings) credentialProvider(name string, b block.SettingBlock) {
	p := recipe.CredentialProvider{Name: name, Program: b.Text("program"), Source: b.ProgramSource(),
		MatchImages: b.Texts("match_images"), Cache: b.Text("cache"), Args: b.Texts("args"), Env: b.TextMap("env"),
		Sensitive: b.Args["env"].Secret, Config: b.Fields("config"), Origin: w.place(b.At)}
	if p.Source.URL == "" && p.Source.File == "" {
		return // reported
	}
	w.CredentialProviders = append(w.CredentialProviders, p)
}

func (w *settings) proxy(b block.SettingBlock) {
	p := &recipe.Proxy{HTTP: b.Text("http"), HTTPS: b.Text("https"), NoProxy: b.Texts("no_proxy"),
		Keep: b.Keep(), Source: w.place(b.At)}
	if p.HTTP == "" && p.HTTPS == "" {
		return // reported
	}
	for _, name := range []string{"http", "https"} {
		u, err := url.Parse(b.Text(name))
		p.Sensitive = p.Sensitive || b.Args[name].Secret || err == nil && u.User != nil
		address, ok := preflight.ProxyAddress(b.Text(name))
		if ok && !b.Args[name].Secret && !slices.Contains(p.Addresses, address) {
			p.Addresses = append(p.Addresses, address)
		}
	}
	w.Proxy = p
	for _, id := range []string{"http_proxy", "https_proxy", "no_proxy", "http_proxy_lower", "https_proxy_lower",
		"no_proxy_lower"} {
		w.at[id] = b.At
	}
}

func (w *settings) firewall(b block.SettingBlock) {
	w.Firewall.Remote, w.Firewall.Keep = b.Texts("remote"), b.Keep()
	if g, ok := b.Args["manage"]; ok && g.Value.False() {
		w.Firewall.Off = true
		return
	}
	if text := b.Text("node_ports"); text != "" {
		w.open(recipe.FirewallRule{Name: "node_ports", Protocol: "tcp", Ports: text, Remote: w.Firewall.Remote,
			Keep: b.Keep()}, b.Args["node_ports"].At)
		w.open(recipe.FirewallRule{Name: "node_ports_udp", Protocol: "udp", Ports: text, Remote: w.Firewall.Remote,
			Keep: b.Keep()}, b.Args["node_ports"].At)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Rules)) {
		r := b.Rules[name]
		w.open(recipe.FirewallRule{Name: name, Protocol: cmp.Or(r.Text("protocol"), "tcp"), Ports: r.Text("ports"),
			Remote: r.Texts("remote"), Keep: b.Keep() || r.Keep()}, r.At)
	}
}

func (w *settings) services(b block.SettingBlock) {
	duration := func(name string) time.Duration {
		d, _ := time.ParseDuration(b.Text(name)) // 0 if it is not given
		return d
	}
	s := recipe.Services{NSSM: b.Text("manager") == "nssm", Keep: b.Keep(), Priority: b.Text("priority"),
		RestartDelay: duration("restart_delay"), RestartReset: duration("restart_reset"), LogDir: b.Text("log_dir"),
		LogAge: b.Text("log_age")}
	if g, ok := b.Args["log_size"]; ok {
		s.LogSize, _ = g.Value.AsBigFloat().Int64()
	}
	if _, known := recipe.Priorities[s.Priority]; s.Priority == "" || known {
		w.Services = s
	}
}

func (w *settings) guard(b block.SettingBlock) {
	if g, ok := b.Args["enabled"]; ok {
		w.Guard.Off = g.Value.False()
	}
	w.Guard.Interval, _ = time.ParseDuration(b.Text("interval")) // 0 if it is not given
	w.Guard.Textfile = b.Text("textfile")
	w.Guard.Certificate, w.Guard.Key = b.Text("metrics_certificate"), b.Text("metrics_key")
	if g, ok := b.Args["metrics_port"]; ok {
		n, _ := g.Value.AsBigFloat().Int64()
		w.Guard.MetricsPort = uint16(n)
	}
}

func (w *settings) follow(b block.SettingBlock) {
	interval, _ := time.ParseDuration(b.Text("interval")) // 0 if it is not given
	w.Follow = &recipe.Follow{Plan: b.Text("plan"), Source: b.Text("source"), Signers: b.Text("signers"),
		Windows: b.Texts("windows"), Jitter: b.Text("jitter"), Interval: interval, Values: b.TextMap("values"),
		Sensitive: b.Args["values"].Secret, Program: b.ProgramSource()}
	if g, ok := b.Args["evict"]; ok {
		w.Follow.Evict = g.Value.True()
	}
	w.followTrust(b)
	for _, id := range []string{"follow_program", "follow_signers", "follow_file"} {
		w.at[id] = b.At
	}
}

func (w *settings) csiProxy(b block.SettingBlock) {
	if version := b.Text("version"); version != "" && b.Installed() {
		w.CSIProxy = &recipe.CSIProxy{Version: strings.TrimPrefix(version, "v"), WorkingDirs: b.Texts("working_dirs"),
			Keep: b.Keep(), Source: w.place(b.At)}
	}
}

func (w *settings) exporter(b block.SettingBlock) {
	port, valid := b.Port(recipe.ExporterPort)
	version := b.Text("version")
	if !valid || version == "" || !b.Installed() {
		return
	}
	w.Exporter = &recipe.Exporter{Version: strings.TrimPrefix(version, "v"), Port: port,
		Collectors: b.Texts("collectors"), Textfile: b.Text("textfile_dir"), Keep: b.Keep(),
		Source: w.place(b.At)}
	w.at["exporter_textfile_dir"] = b.At
	if g, open := b.Args["remote"]; open {
		w.open(recipe.FirewallRule{Name: "windows_exporter", Protocol: "tcp", Ports: strconv.Itoa(int(port)),
			Remote: b.Texts("remote"), Keep: b.Keep()}, g.At)
	}
}
