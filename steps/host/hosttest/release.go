package hosttest

import (
	"os"
	"testing"
)

// releaseEnv has a value where tests may build programs as for a release.
const releaseEnv = "NODEJOIN_TEST_RELEASE"

// Release skips a test that is about a release, unless NODEJOIN_TEST_RELEASE is set. Such a test builds nodejoin or
// the agent, which takes longer than most packages do; .ci/run runs all of them beside its release build.
func Release(t testing.TB) {
	t.Helper()
	if os.Getenv(releaseEnv) == "" {
		t.Skip("about a release; set " + releaseEnv + "=1")
	}
}
