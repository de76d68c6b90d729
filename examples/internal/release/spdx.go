package main

import (
	"debug/buildinfo"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// The SBOM, as SPDX 2.3 has it in JSON (spdx.github.io/spdx-spec/v2.3); what it holds is what the Go tool wrote into
// the program.
type (
	document struct {
		Version       string         `json:"spdxVersion"`
		License       string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      creation       `json:"creationInfo"`
		Packages      []component    `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	component struct {
		ID        string      `json:"SPDXID"`
		Name      string      `json:"name"`
		Version   string      `json:"versionInfo"`
		Location  string      `json:"downloadLocation"`
		Analyzed  bool        `json:"filesAnalyzed"`
		Concluded string      `json:"licenseConcluded"`
		Declared  string      `json:"licenseDeclared"`
		Copyright string      `json:"copyrightText"`
		Checksums []checksum  `json:"checksums,omitempty"`
		Refs      []reference `json:"externalRefs,omitempty"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// spdx is the SBOM of a program with this sha256.
func spdx(info *buildinfo.BuildInfo, name, version, sha256 string, at time.Time) ([]byte, error) {
	const none, root = "NOASSERTION", "SPDXRef-nodejoin"
	part := func(id, name, version string) component {
		return component{ID: id, Name: name, Version: version, Location: none, Concluded: none, Declared: none,
			Copyright: none}
	}
	program := part(root, name, version)
	program.Checksums = []checksum{{"SHA256", sha256}}
	d := document{Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: "https://spdx.org/spdxdocs/" + name + "-" + sha256,
		Creation:  creation{at.Format(time.RFC3339), []string{"Tool: nodejoin-release"}}, Packages: []component{program},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root}}}
	add := func(id, name, version, purl string) {
		c := part(id, name, version)
		c.Refs = []reference{{"PACKAGE-MANAGER", "purl", purl}}
		d.Packages = append(d.Packages, c)
		d.Relationships = append(d.Relationships, relationship{root, "CONTAINS", id})
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	add("SPDXRef-go", "stdlib", goVersion, "pkg:golang/stdlib@"+goVersion)
	for i, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		add("SPDXRef-module-"+strconv.Itoa(i+1), m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	return json.MarshalIndent(d, "", " ")
}
