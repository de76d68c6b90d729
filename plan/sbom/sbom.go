// Package sbom writes bills of materials, as SPDX 2.3 has them in JSON (spdx.github.io/spdx-spec/v2.3).
package sbom

import (
	"encoding/json"
	"time"
)

type (
	// Document is a bill of materials.
	Document struct {
		Version       string         `json:"spdxVersion"`
		License       string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      Creation       `json:"creationInfo"`
		Packages      []Package      `json:"packages"`
		Relationships []Relationship `json:"relationships"`
	}
	// Creation says when a document was made, and by what.
	Creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	// Package is a thing that a document is about.
	Package struct {
		ID        string      `json:"SPDXID"`
		Name      string      `json:"name"`
		Version   string      `json:"versionInfo,omitempty"`
		Location  string      `json:"downloadLocation"`
		Analyzed  bool        `json:"filesAnalyzed"`
		Concluded string      `json:"licenseConcluded"`
		Declared  string      `json:"licenseDeclared"`
		Copyright string      `json:"copyrightText"`
		Checksums []Checksum  `json:"checksums,omitempty"`
		Refs      []Reference `json:"externalRefs,omitempty"`
	}
	// Checksum is a digest of a package.
	Checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	// Reference is a name of a package elsewhere.
	Reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	// Relationship says what packages are to each other.
	Relationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// none is the value of what nobody says.
const none = "NOASSERTION"

// documentID is the document itself.
const documentID = "SPDXRef-DOCUMENT"

// New returns a document without packages. of makes its namespace unique: a digest of what it is about.
func New(name, of, tool string, at time.Time) *Document {
	return &Document{Version: "SPDX-2.3", License: "CC0-1.0", ID: documentID, Name: name,
		Namespace: "https://spdx.org/spdxdocs/" + name + "-" + of,
		Creation:  Creation{at.UTC().Format(time.RFC3339), []string{"Tool: " + tool}}}
}

// Of returns a package. With a package URL (purl) it has that as its name elsewhere.
func Of(id, name, version, purl string) Package {
	p := Package{ID: "SPDXRef-" + id, Name: name, Version: version, Location: none, Concluded: none, Declared: none,
		Copyright: none}
	if purl != "" {
		p.Refs = []Reference{{"PACKAGE-MANAGER", "purl", purl}}
	}
	return p
}

// Describe adds a package that the document is about.
func (d *Document) Describe(p Package) {
	d.Packages = append(d.Packages, p)
	d.Relationships = append(d.Relationships, Relationship{documentID, "DESCRIBES", p.ID})
}

// Contain adds a package that another one contains. It may be contained in several.
func (d *Document) Contain(in string, p Package) {
	d.Relationships = append(d.Relationships, Relationship{"SPDXRef-" + in, "CONTAINS", p.ID})
	for _, have := range d.Packages {
		if have.ID == p.ID {
			return
		}
	}
	d.Packages = append(d.Packages, p)
}

// JSON is the text of the document.
func (d *Document) JSON() ([]byte, error) { return json.MarshalIndent(d, "", " ") }
