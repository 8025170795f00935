package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"novelgate/readapi/history"
)

// The values of flags that have rules of their own. One that breaks them is a wrong command line: kong says so, with
// the name of the flag, before anything is done.

// positive is a number of things of which there must be one.
type positive int

// Validate refuses less than one.
func (p positive) Validate() error {
	if p < 1 {
		return errors.New("must be 1 or more")
	}
	return nil
}

// LifetimeFlag is how long a new key lives: for ever when it is not given, which is its zero value.
type LifetimeFlag struct {
	ExpiresIn lifetime `name:"expires-in" placeholder:"720h" help:"Lifetime of the key; without it the key does not expire."`
}

type lifetime time.Duration

// UnmarshalText refuses what would make a key that has expired already, or, in its place, one that never does.
func (l *lifetime) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("must be a duration such as 720h or 90m, not %q", text)
	}
	if d <= 0 {
		return errors.New("must be more than 0; without the flag the key does not expire")
	}
	*l = lifetime(d)
	return nil
}

// instant is a moment, as RFC 3339 writes it.
type instant struct{ time.Time }

// UnmarshalText reads a moment in the words of the interface for auditors.
func (i *instant) UnmarshalText(text []byte) (err error) {
	i.Time, err = history.ParseTime(string(text))
	return err
}

// moment is the time, nil for none.
func (i *instant) moment() *time.Time {
	if i == nil {
		return nil
	}
	return &i.Time
}

// logLevel is what is logged and all that is worse.
type logLevel slog.Level

// UnmarshalText reads the name of a level.
func (l *logLevel) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return errors.New("must be debug, info, warn or error")
	}
	return nil
}
