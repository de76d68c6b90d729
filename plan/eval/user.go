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

// Token is the token in the file of the argument "token_file", which excludes a user; "" if there is none or it is
// wrong.
func (s *Section) Token() string {
	if !s.Has("token_file") {
		return ""
	}
	for _, name := range []string{"username", "password_env"} {
		if s.Has(name) {
			s.Fail("token_file", "arguments exclude each other",
				"A server takes a token or a user with a password: remove \"token_file\" or %q.", name)
			return ""
		}
	}
	text, ok := s.OwnFile("token_file")
	token := strings.TrimSpace(text)
	if ok && (token == "" || !PlainText(token) || strings.Contains(token, " ")) {
		s.Fail("token_file", "invalid token", "The file %s holds no token: one word in one line.", s.Str("token_file"))
	}
	return token
}

// OwnFile reads a file that an argument names; ok is false where there is none, or it cannot be read.
func (s *Section) OwnFile(name string) (text string, ok bool) {
	path := s.Str(name)
	if path == "" {
		return "", false
	}
	b, err := s.Scope.Files.ReadOwn(s.Scope.Files.Home(path))
	if err != nil {
		s.Fail(name, "unreadable file", "The file of %q cannot be read: %v.", name, err)
	}
	return string(b), err == nil
}

// Together reports whether two arguments are given, and an error where one of them is missing.
func (s *Section) Together(one, other string) bool {
	for _, n := range [][2]string{{one, other}, {other, one}} {
		if s.Has(n[0]) && !s.Has(n[1]) && !s.Misspelt(n[1]) {
			s.Fail(n[0], "missing argument", "The argument %q needs %q beside it.", n[0], n[1])
		}
	}
	return s.Has(one) && s.Has(other)
}
