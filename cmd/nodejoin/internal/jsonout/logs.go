package jsonout

// Logs is the JSON output of logs (examples/schema/logs.schema.json).
type Logs struct {
	File    string   `json:"file"`
	Entries int      `json:"entries"`
	Missing []string `json:"missing"`
}
