package host

import "testing"

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "*": "", "10.0.0.5, *": "",
		"10.0.0.0/255.0.0.0,192.0.2.1/255.255.255.255": "10.0.0.0/8,192.0.2.1",
		"192.0.2.1 , 10.1.2.3/8,192.0.2.1":             "10.0.0.0/8,192.0.2.1",
		"FD00::1-fd00::1,fd00::/64":                    "fd00::/64,fd00::1",
		"10.0.0.1-10.0.0.9":                            "10.0.0.1-10.0.0.9",
		"LocalSubnet":                                  "localsubnet",
		"10.0.0.0/255.0.255.0":                         "10.0.0.0/255.0.255.0",
	} {
		if have := Addresses(in); have != want {
			t.Errorf("%q: %q, want %q", in, have, want)
		}
	}
	for in, want := range map[string]bool{"": true, "*": true, "10.0.0.0/8": true, "10.0.0.1,fd00::/8": true,
		"10.0.0.1-10.0.0.9": false, "LocalSubnet": false, "10.0.0": false, ",": false} {
		if have := ValidAddresses(in); have != want {
			t.Errorf("%q: valid %v", in, have)
		}
	}
}
