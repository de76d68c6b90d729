package source

// Remote is a module that is not beside the plan: an archive, or an OCI artifact that has one.
type Remote struct {
	Address string // https://HOST/PATH.tar.gz, or oci://REGISTRY/REPOSITORY, :TAG where the plan gives no digest
	SHA256  string // lower-case hex: of the archive, or of the artifact's manifest
	Locked  string // name by which the lock has the digest; "" = the plan gives it
}
