package engine_test

import (
	"os"
	"path/filepath"
	"strconv"
)

// logins are the ways to log in at a registry.
func logins() []choice {
	block := func(name, text string) choice {
		return in(name, "runtime containerd", "registry \"private.example\" {\n"+text+"\n}")
	}
	return []choice{{}, block("user", "username = \"puller\"\n password_env = \"DRAWN_PASSWORD\""),
		block("token", "mirrors = [\"https://private.example\"]\n token_file = \".sandbox/token\""),
		block("certificate", "client_certificate = "+strconv.Quote(clientCertificate)+
			"\n client_key_file = \".sandbox/client.key\"")}
}

// providers are programs that the kubelet asks for credentials.
func providers() []choice {
	file := "\n file = \"./mirror/tools.tar.gz\"\n"
	ecr := "credential_provider \"ecr\" {" + file + " sha256 = \"" + toolsArchive.sha256 + "\"\n}"
	own := "credential_provider \"own\" {" + file + " sha512 = \"" + toolsArchive.sha512 + "\"\n" +
		" program = \"own-provider\"\n match_images = [\"*.example\"]\n cache = \"5m\"\n args = [\"-v\"]\n" +
		" env = { A = \"b\" }\n config = { tokenAttributes = null }\n}"
	return []choice{{}, in("provider", "profile", ecr+"\n"+own), in("provider of the node", "node", own+"\n"+ecr)}
}

// pulled are images that the runtime has before the kubelet starts.
func pulled() []choice {
	return []choice{{}, in("images", "profile", `images { pull = ["registry.example/app:1"] }`),
		in("images of the node", "node", `images { pull = ["registry.example/app:2", "registry.example/app:1"] }`)}
}

// drawnEnv is the environment that drawn plans are read with.
func drawnEnv(name string) (string, bool) { return "drawn", name == "DRAWN_PASSWORD" }

// writeLogins writes the files that logins name.
func (w *world) writeLogins() {
	w.t.Helper()
	for name, text := range map[string]string{"token": "drawn\n", "client.key": clientKey} {
		if err := os.WriteFile(filepath.Join(w.dir, ".sandbox", name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A certificate, and its key, which opens nothing.
const (
	clientCertificate = `-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUSsuQqFTvBZoRYnoScOaOfmQAj6EwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEbm9kZTAgFw0yNjExMjUxNTE4MDZaGA8yMTI2MTEwMTE1MTgw
NlowDzENMAsGA1UEAwwEbm9kZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABBoP
C+FumIZnpkEJO4Pwubg9b8wlOYJzl53nu1C1twsHyjhIZ8a318JydfuAZHch+hT0
1lPzT4tI87tmV8JZ3q6jUzBRMB0GA1UdDgQWBBTtCJSUItOz08ZXzrJ/EgAxiTjv
OjAfBgNVHSMEGDAWgBTtCJSUItOz08ZXzrJ/EgAxiTjvOjAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCICFKvMeMzNgwY+iM5a3giivhuMJo/qkHPNBq
/6EK6GHYAiEAqHoU7FMLk3swytnCtnfGHV51eWACnl/+gD7jP2N5rnU=
-----END CERTIFICATE-----
`
	clientKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgtDvCmkCLxJ17BCSE
zgFrpXSP4tjH8ATw0XhIAZiOhS6hRANCAAQaDwvhbpiGZ6ZBCTuD8Lm4PW/MJTmC
c5ed57tQtbcLB8o4SGfGt9fCcnX7gGR3IfoU9NZT80+LSPO7ZlfCWd6u
-----END PRIVATE KEY-----
`
)
