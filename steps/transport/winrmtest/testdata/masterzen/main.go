// Command masterzen uses the WinRM client of github.com/masterzen/winrm: it makes a folder, sends input to a program,
// runs an unknown command, then tries a wrong password. Arguments: address, password, file with the CA.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/masterzen/winrm"
)

func main() {
	host, port, _ := strings.Cut(os.Args[1], ":")
	n, err := strconv.Atoi(port)
	check(err)
	ca, err := os.ReadFile(os.Args[3])
	check(err)
	end := winrm.NewEndpoint(host, n, true, false, ca, nil, nil, time.Minute)
	client := func(password string) *winrm.Client {
		p := *winrm.DefaultParameters
		p.TransportDecorator = func() winrm.Transporter { return &winrm.ClientNTLM{} }
		c, err := winrm.NewClientWithParameters(end, "Administrator", password, &p)
		check(err)
		return c
	}
	c := client(os.Args[2])
	for _, line := range []string{`mkdir a\b`, "dir /b a", "format c:"} {
		var out, errs bytes.Buffer
		code, err := c.Run(line, &out, &errs)
		check(err)
		fmt.Println(code, strings.TrimSpace(out.String()), strings.Contains(errs.String(), "not recognized"))
	}
	var out, errs bytes.Buffer
	code, err := c.RunWithInput("tar.exe -xozmf - -C a", &out, &errs, os.Stdin)
	check(err)
	fmt.Println(code, errs.String())
	_, err = client("wrong").Run("dir /b a", &out, &errs)
	fmt.Println(err != nil && strings.Contains(err.Error(), "401"))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
