package firstboot

import (
	"encoding/base64"
	"strings"
)

// lineMark begins each line of the script in an answer file, and changes nothing: no variable has that name. It has 24
// bytes, a multiple of three, so that the Base64 of all lines begins alike. On a machine with such a variable the
// script would do nothing; hence the odd name.
const lineMark = "@if not defined _nj_line"

// mark begins those lines of an answer file that have something of the script. forget.cmd finds them by it in the
// copies that Windows makes of the file.
func mark() string { return base64.StdEncoding.EncodeToString([]byte(lineMark)) }

// marked is a script for cmd.exe in Base64, line by line: spaces after the mark make each end where its Base64 does.
func marked(script string) string {
	var out []string
	for line := range strings.SplitSeq(script, "\n") {
		line = " " + line + "\r\n"
		for len(line)%3 > 0 {
			line = " " + line
		}
		out = append(out, base64.StdEncoding.EncodeToString([]byte(lineMark+line)))
	}
	return strings.Join(out, "\n")
}
