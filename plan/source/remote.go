package source

// Remote is a module that is not beside the plan: an archive, or an OCI artifact that has one.
type Remote struct {
	Address string // https://HOST/PATH.tar.gz, or oci://REGISTRY/REPOSITORY
	SHA256  string // lower-case hex: of the archive, or of the artifact's manifest
}
