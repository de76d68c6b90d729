// Package flagvalue has the values of flags.
package flagvalue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OneOf is a flag that has one of a few values.
type OneOf struct {
	Value  *string
	Values []string
}

func (o OneOf) String() string {
	if o.Value == nil {
		return ""
	}
	return *o.Value
}

// Type is what help calls the value.
func (o OneOf) Type() string { return "string" }

// Choices are what it takes.
func (o OneOf) Choices() []string { return o.Values }

// Set takes one of the values.
func (o OneOf) Set(s string) error {
	if !slices.Contains(o.Values, s) {
		return fmt.Errorf("it must be %s", strings.Join(o.Values[:len(o.Values)-1], ", ")+" or "+o.Values[len(o.Values)-1])
	}
	*o.Value = s
	return nil
}

// Bound is a flag of more than 0 and at most a day.
type Bound time.Duration

func (d *Bound) String() string { return time.Duration(*d).String() }

// Type is what help calls the value.
func (d *Bound) Type() string { return "duration" }

// Set reads a duration.
func (d *Bound) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v <= 0 || v > 24*time.Hour {
		return errors.New("it must be a duration from more than 0 to 24h")
	}
	*d = Bound(v)
	return nil
}

// Positive is a flag with a whole number, at least 1.
type Positive int

func (p *Positive) String() string { return strconv.Itoa(int(*p)) }

// Type is what help calls the value.
func (p *Positive) Type() string { return "int" }

// Set reads a number.
func (p *Positive) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("it must be a whole number, at least 1")
	}
	*p = Positive(n)
	return nil
}

// SomeOf is a flag with some of a few values, separated by commas.
type SomeOf struct {
	Value  *[]string
	Values []string
	What   string // a value is called so
}

func (o SomeOf) String() string {
	if o.Value == nil {
		return ""
	}
	return strings.Join(*o.Value, ",")
}

// Type is what help calls the values.
func (o SomeOf) Type() string { return "strings" }

// Choices are what it takes.
func (o SomeOf) Choices() []string { return o.Values }

// Set adds values.
func (o SomeOf) Set(text string) error {
	for _, one := range strings.Split(text, ",") {
		if !slices.Contains(o.Values, one) {
			return fmt.Errorf("%q is not a %s; there are %s", one, o.What, strings.Join(o.Values, ", "))
		}
		*o.Value = append(*o.Value, one)
	}
	return nil
}
