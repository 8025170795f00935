package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// opsFlags have the address that serve listens at and healthcheck asks.
type opsFlags struct {
	OpsListen string `env:"NOVELGATE_OPS_LISTEN" default:"127.0.0.1:8081" placeholder:"ADDRESS" help:"Address for operators: /metrics, /healthz, /readyz, /debug/pprof/ (default: ${default})."`
}

func (f opsFlags) validate() error {
	if _, _, err := net.SplitHostPort(f.OpsListen); err != nil {
		return fmt.Errorf("--ops-listen: %w", err)
	}
	return nil
}

type healthcheckCommand struct {
	Ops opsFlags `embed:""`

	Live bool `help:"Ask whether the service answers (/healthz), not whether it can carry out commands (/readyz)."`
}

// Validate refuses a malformed address; kong calls it.
func (c *healthcheckCommand) Validate() error { return c.Ops.validate() }

// healthcheckTimeout is shorter than the time-outs that container engines and load balancers usually have, and longer
// than /readyz takes.
const healthcheckTimeout = 4 * time.Second

// run fails unless the service at the address for operators answers with 200.
func (c *healthcheckCommand) run(ctx context.Context, env *environment) error {
	path := "/readyz"
	if c.Live {
		path = "/healthz"
	}
	address := "http://" + c.Ops.OpsListen + path // no host means this machine, also to a client
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := selfClient(healthcheckTimeout).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // nothing to save
	if answer.StatusCode != http.StatusOK {
		const limit = 64 << 10
		var said struct {
			Reason string `json:"reason"`
		}
		text, _ := io.ReadAll(io.LimitReader(answer.Body, limit)) // without it, the status says enough
		_ = json.Unmarshal(text, &said)                           // likewise
		return errors.New(address + " answers " + answer.Status + ": " + cmp.Or(said.Reason, "no reason given"))
	}
	_, err = fmt.Fprintln(env.stdout, address, "answers", answer.Status)
	return err
}

// selfClient returns a client for requests to the own machine: no proxy of the environment is asked, and no redirect
// followed.
func selfClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
