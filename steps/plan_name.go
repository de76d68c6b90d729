package steps

import (
	"fmt"
	"regexp"
	"strings"
)

var environmentForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// IsEnvironment reports whether s can be the name of an environment: at most 40 small letters, digits and '-'.
func IsEnvironment(s string) bool { return environmentForm.MatchString(s) }

// PlanName is the name that machines, Nodes and objects are marked with: that of the plan, in one of its environments;
// "" = in none.
func PlanName(environment, plan string) string {
	if environment == "" {
		return plan
	}
	return environment + "@" + plan
}

// EnvironmentOf takes a PlanName apart; the environment is "" where the plan has none.
func EnvironmentOf(name string) (environment, plan string) {
	if env, rest, ok := strings.Cut(name, "@"); ok && IsEnvironment(env) {
		return env, rest
	}
	return "", name
}

// OtherEnvironment is the error for what a plan of another environment has marked, which the plan called name must not
// touch; nil = it may. What was marked before the plan had environments may go over to one of them.
func OtherEnvironment(what, mark, name string) *Error {
	theirs, plan := EnvironmentOf(mark)
	env, mine := EnvironmentOf(name)
	if theirs == "" || theirs == env || env == "" && plan != mine {
		return nil
	}
	run := "this run is for the environment " + env
	if env == "" {
		run = "this run has no --env"
	}
	return &Error{Code: CodeDenied, Summary: "the node belongs to another environment",
		Detail: fmt.Sprintf("%s is marked as a node of the environment %s (%s); %s", what, theirs, mark, run),
		Remedy: fmt.Sprintf("run with --env %s, or take the node out of the values of this environment; to move it, "+
			"let it leave with --env %s first", theirs, theirs)}
}
