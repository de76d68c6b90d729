package eval

import "strings"

// User reads username and password_env, the name of the variable of the controller that holds the password.
func (s *Section) User() (name, password string) {
	name = s.Str("username")
	if strings.Contains(name, ":") || !PlainText(name) {
		s.Fail("username", "invalid user name", "%q cannot be the user of a server: it has a colon or a control "+
			"character.", name)
	}
	env := s.Str("password_env")
	if env == "" {
		return name, ""
	}
	value, set, err := s.Scope.Getenv(env)
	switch {
	case err != nil:
		s.Fail("password_env", "password not known", "The password cannot be read: %s.", err)
	case !set || value == "":
		s.Fail("password_env", "password not known", "The environment variable %s is not set or empty, and it is to hold "+
			"the password of %q. Set it where nodejoin runs.", env, name)
	case !PlainText(value):
		s.Fail("password_env", "invalid password", "The environment variable %s holds a line break or another control "+
			"character, which no password of a server has. Set it without one.", env)
	}
	return name, value
}

// PlainText reports whether a text has no control characters.
func PlainText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
