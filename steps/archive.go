package steps

var archiveKind = Kind{Name: "archive", Place: OnHost, Doc: "files unpacked from an archive that is verified by digest",
	New: func() any { return &Archive{} }}

// Archive is a set of files unpacked from one archive (.tar, .tar.gz, .tgz, .zip).
type Archive struct {
	Source
	To       string   `json:"to" doc:"absolute folder that receives the files"`
	Strip    int      `json:"strip,omitempty" doc:"leading folders of member names to drop"`
	Include  []string `json:"include,omitempty" doc:"patterns (path.Match) of member names to unpack; default all"`
	Services []string `json:"services,omitempty" doc:"services to stop before files are replaced"`
}
