package block

import (
	"encoding/json"
	"strings"

	"nodejoin/plan/eval"
)

// JSONFile warns of a file that is named JSON but is not JSON, for example because of comments.
func JSONFile(s *eval.Section, args map[string]any) {
	path, _ := args["path"].(string)
	text, _ := args["content"].(string)
	if low := strings.ToLower(path); text == "" || !strings.HasSuffix(low, ".json") && !strings.HasSuffix(low,
		".conflist") {
		return
	}
	parts := strings.Split(text, "\x00") // every second one is a reference
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "0"
	}
	if !json.Valid([]byte(strings.Join(parts, ""))) {
		s.Scope.Warn(s.At("content"), "invalid JSON", "The file %s is named JSON, but its content is not JSON, so its "+
			"reader would refuse it. JSON has no comments and no comma after the last element; jsonencode({...}) writes "+
			"it.", path)
	}
}
