// Command delegate is a stand-in for a Windows CNI plugin that another plugin calls. It creates nothing: it
// records each request in a JSON file beside it, "NAME.exe.ADD.json", and answers with an address for the pod.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Getenv("CNI_COMMAND")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(command string) error {
	conf, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.WriteFile(program+"."+command+".json", conf, 0o644); err != nil {
		return err
	}
	var asked struct {
		CNIVersion string `json:"cniVersion"`
	}
	if err := json.Unmarshal(conf, &asked); err != nil {
		return err
	}
	if command != "ADD" {
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": asked.CNIVersion,
		"ip4": map[string]string{"ip": "10.244.0.9/24"}})
}
