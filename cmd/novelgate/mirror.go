package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/gorilla/mux"

	"novelgate/commands/staff"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/mirror"
	"novelgate/internal/apikey"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/projections"
)

// mirrorFlags make serve a mirror.
type mirrorFlags struct {
	URL        *url.URL `name:"mirror" env:"NOVELGATE_MIRROR" placeholder:"URL" help:"Mirror the service at this public URL: verify its history, and serve it to readers. The database must be empty at the first start."`
	OriginKey  string   `name:"origin-key" env:"NOVELGATE_ORIGIN_KEY" type:"existingfile" placeholder:"FILE" help:"File with the public keys of the ledger that is mirrored, one per line."`
	AuditorKey string   `name:"auditor-key" env:"NOVELGATE_AUDITOR_KEY" placeholder:"KEY" help:"API key of an auditor at the service that is mirrored. Use the variable: others can see the command line."`
	Bundle     []string `name:"mirror-bundle" env:"NOVELGATE_MIRROR_BUNDLE" type:"existingdir" placeholder:"DIR" help:"Bundle of events export with the beginning of the history, and those that continue it, in order."`

	keys    []string
	bundles audit.Bundles
}

// validate reads the files.
func (f *mirrorFlags) validate(signing *LedgerFlags) (err error) {
	if f.URL == nil {
		if f.OriginKey != "" || len(f.Bundle) > 0 {
			return errors.New("--origin-key and --mirror-bundle are for --mirror")
		}
		return nil
	}
	if err := wantHTTP("--mirror", f.URL); err != nil {
		return err
	}
	if signing.Origin != "" || signing.PublishDir != "" || signing.PublishURL != nil || len(signing.Witness) > 0 {
		return errors.New("--mirror: a mirror signs and publishes nothing, so the flags --ledger-origin, " +
			"--ledger-publish-dir, --ledger-publish-url and --ledger-witness are for its origin")
	}
	if f.OriginKey == "" || f.AuditorKey == "" {
		return errors.New("--mirror needs --origin-key and --auditor-key")
	}
	if secret, err := apikey.Parse(f.AuditorKey); err != nil || secret.Kind() == apikey.Partner {
		return errors.New("--auditor-key is not the API key of an auditor")
	}
	text, err := os.ReadFile(f.OriginKey)
	if err != nil {
		return fmt.Errorf("--origin-key: %w", err)
	}
	if f.keys = strings.Fields(string(text)); len(f.keys) == 0 {
		return errors.New("--origin-key: there is no key in the file")
	}
	for _, key := range f.keys {
		if _, err := (ledger.Checkpoint{}).SignedBy(key); err != nil {
			return fmt.Errorf("--origin-key: %w", err)
		}
	}
	if f.bundles, err = audit.OpenBundles(f.Bundle); err != nil {
		return fmt.Errorf("--mirror-bundle: %w", err)
	}
	if len(f.bundles) > 0 && f.bundles.First() > 0 {
		return errors.New("--mirror-bundle: the first bundle does not begin with log index 0")
	}
	return nil
}

// workOnMirror makes the mirror. Without the flag it refuses a database that is one.
func (s *service) workOnMirror(ctx context.Context, f *mirrorFlags) error {
	pool := s.db.pools.General
	if f.URL == nil {
		origin, err := mirror.Origin(ctx, pool)
		if err == nil && origin != "" {
			err = fmt.Errorf("%w of %s: start it with --mirror", mirror.ErrMirror, origin)
		}
		return err
	}
	origin := strings.TrimRight(f.URL.String(), "/")
	if err := mirror.Begin(ctx, pool, origin); err != nil {
		return err
	}
	var streams []string
	for _, p := range projections.Inline() {
		streams = append(streams, p.Streams()...)
	}
	s.mirror = mirror.New(mirror.Config{
		Pool: pool, URL: origin, Keys: f.keys, Bundles: f.bundles,
		Source: &audit.Live{
			Service: &audit.Service{Client: &http.Client{}, URL: origin + "/ledger"}, Key: f.AuditorKey,
		},
		Inline: projections.QueueInline, InlineStreams: streams, Erase: staff.EraseMirrored,
		Wake: s.wake, Now: s.now, Logger: s.logger,
	})
	s.background = append(s.background, s.mirror.Run)
	return nil
}

// misdirected makes a mirror refuse what only its origin serves: commands, and the routes of partners and staff.
func (s *service) misdirected(kit *httpkit.Kit) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		if s.mirror == nil {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reads := r.Method == http.MethodGet || r.Method == http.MethodHead
			if !reads || strings.HasPrefix(r.URL.Path, "/api/integrations") || strings.HasPrefix(r.URL.Path, "/api/admin") {
				kit.Fail(w, r, problem.Misdirected(s.mirror.Status().Origin))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
