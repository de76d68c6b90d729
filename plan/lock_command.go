package plan

import "strings"

// lockCommand is the command that locks this plan.
func (c *compiler) lockCommand(flags string) string {
	text := "nodejoin lock " + flags
	switch {
	case c.path == "" || c.path == ".":
		return strings.TrimSpace(text)
	case strings.ContainsAny(c.path, " '"):
		return text + `"` + c.path + `"`
	}
	return text + c.path
}
