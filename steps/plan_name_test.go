package steps

import (
	"strings"
	"testing"
)

// TestOtherEnvironment: which marks a run may touch.
func TestOtherEnvironment(t *testing.T) {
	for _, c := range []struct {
		mark, name string
		refused    bool
	}{
		{"", "prod@lab", false},
		{"lab", "lab", false},
		{"lab", "prod@lab", false},         // before the plan had environments
		{"prod@lab", "prod@lab", false},    // its own
		{"prod@lab", "prod@other", false},  // another plan of the same environment
		{"prod@lab", "staging@lab", true},  // another environment
		{"prod@lab", "staging@base", true}, // of whatever plan
		{"prod@lab", "lab", true},          // --env was forgotten
		{"prod@lab", "tools", false},       // a plan that has no environments
		{"prod@./lab", "staging@./lab", true},
		{"./a@b", "staging@./a@b", false}, // a folder with such a name
	} {
		err := OtherEnvironment("machine", c.mark, c.name)
		if (err != nil) != c.refused {
			t.Errorf("mark %q, run %q: refused = %v, want %v", c.mark, c.name, err != nil, c.refused)
		}
		if env, _ := EnvironmentOf(c.mark); err != nil && !strings.Contains(err.Remedy, "--env "+env) {
			t.Errorf("mark %q, run %q: the remedy does not name the environment: %s", c.mark, c.name, err.Remedy)
		}
	}
}
