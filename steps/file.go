package steps

import "nodejoin/steps/host"

var fileKind = Kind{Name: "file", Place: OnHost, Doc: "a file with this content, written atomically, or its absence",
	New: func() any { return &File{} }}

// File is a file with wanted content and access, or its absence.
type File struct {
	Path      string      `json:"path" doc:"absolute path"`
	Content   string      `json:"content,omitempty" doc:"the whole content"`
	Access    host.Access `json:"access,omitempty" doc:"\"private\": only the system and administrators; \"program\": executable on Linux"`
	Sensitive bool        `json:"sensitive,omitempty" doc:"never show the content in a diff"`
	Absent    bool        `json:"absent,omitempty" doc:"the file must not exist"`
}
