package block

import (
	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
)

// version is a version argument without a leading "v"; "" when it is wrong.
func version(s *eval.Section, name string) string {
	text := s.Str(name)
	if text == "" {
		return ""
	}
	v, err := compat.Parse(text)
	if err != nil {
		s.Fail(name, "invalid version", "%s. Write all three numbers, for example \"1.36.3\".", err)
		return ""
	}
	return v.String()
}
