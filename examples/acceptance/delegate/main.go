// Command delegate stands in for a CNI plugin of Windows to which another hands over. It
// makes nothing: it notes what it was asked, one file of JSON beside it for each command,
// "NAME.exe.ADD.json", and says that a pod has an address.
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
