module nodejoin/plan/signature/testdata/make

go 1.26.0

require github.com/sigstore/sigstore-go v1.3.0
