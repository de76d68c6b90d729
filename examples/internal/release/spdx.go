package main

import (
	"debug/buildinfo"
	"strconv"
	"strings"
	"time"

	"nodejoin/plan/sbom"
)

// spdx is the SBOM of a program with this sha256; what it holds is what the Go tool wrote into the program.
func spdx(info *buildinfo.BuildInfo, name, version, sha256 string, at time.Time) ([]byte, error) {
	d := sbom.New(name, sha256, "nodejoin-release", at)
	const root = "nodejoin"
	program := sbom.Of(root, name, version, "")
	program.Checksums = []sbom.Checksum{{Algorithm: "SHA256", Value: sha256}}
	d.Describe(program)
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	d.Contain(root, sbom.Of("go", "stdlib", goVersion, "pkg:golang/stdlib@"+goVersion))
	for i, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		d.Contain(root, sbom.Of("module-"+strconv.Itoa(i+1), m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version))
	}
	return d.JSON()
}
