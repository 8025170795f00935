package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"novelgate/client"
	"novelgate/internal/apikey"
)

type certifyCommand struct {
	OutputFlags
	URL    string `required:"" env:"NOVELGATE_URL" placeholder:"URL" help:"Address of the service."`
	Key    string `required:"" env:"NOVELGATE_API_KEY" placeholder:"KEY" help:"API key of the sandbox (ngt_…)."`
	Report string `placeholder:"FILE" help:"Write the result as JSON to this file."`
}

// errNotCertified means that the partner's program did not survive every simulated fault.
var errNotCertified = errors.New("not certified: not all faults were survived")

var faultColumns = columns[client.Fault]{
	[]any{"FAULT", "RESULT", "OPERATION", "KEY", "AT", "REASON"},
	func(f client.Fault) []any {
		return []any{f.Fault, f.Result, orDash(f.Operation), orDash(f.IdempotencyKey), formatTime(f.At), f.Reason}
	},
}

// Validate refuses the API key of a real integration; kong calls it.
func (c *certifyCommand) Validate() error {
	if secret, err := apikey.Parse(c.Key); err == nil && secret.Kind() == apikey.Partner {
		return errors.New("this API key (ngp_…) is not of a sandbox; only sandboxes simulate faults: ask staff for a sandbox")
	}
	return nil
}

// Run prints the result of each fault, and writes it to the file Report. It fails with errNotCertified if a fault was
// not survived.
func (c *certifyCommand) Run(ctx context.Context, out *output) error {
	partner, err := client.New(c.URL, c.Key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := partner.Certification(ctx)
	if err != nil {
		return fmt.Errorf("read the certification: %w", err)
	}
	if c.Report != "" {
		report, err := json.Marshal(found, jsontext.WithIndent("  "))
		if err != nil {
			return fmt.Errorf("encode the report: %w", err)
		}
		if err := os.WriteFile(c.Report, append(report, '\n'), 0o666); err != nil { //nolint:gosec // the umask decides
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if err := faultColumns.printList(out, found.Faults, nil); err != nil {
		return err
	}
	if !found.Certified {
		return errNotCertified
	}
	return nil
}
