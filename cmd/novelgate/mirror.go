package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"

	"novelgate/commands/staff"
	"novelgate/events/eventlog"
	"novelgate/events/handover"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/mirror"
	"novelgate/events/relay"
	"novelgate/internal/apikey"
	"novelgate/internal/database"
	"novelgate/projections"
)

// mirrorFlags make serve run as a mirror.
type mirrorFlags struct {
	From       string    `name:"mirror" env:"NOVELGATE_MIRROR" placeholder:"URL" help:"Public URL of a service: run as its mirror. Or NATS servers (nats:// or tls://, separated by commas): run as the mirror of --origin and read its events from them. The first start needs an empty database."`
	Origin     *url.URL  `env:"NOVELGATE_ORIGIN" placeholder:"URL" help:"With NATS servers in --mirror: public URL of the mirrored service, whose ledger signs the events."`
	OriginKey  string    `env:"NOVELGATE_ORIGIN_KEY" type:"existingfile" placeholder:"FILE" help:"With --mirror: file with the public keys of the origin's ledger, one per line."`
	AuditorKey string    `env:"NOVELGATE_AUDITOR_KEY" placeholder:"KEY" help:"With the URL of the origin in --mirror: API key of an auditor there. Use the environment variable: others can see the command line."`
	Bundle     []string  `name:"mirror-bundle" env:"NOVELGATE_MIRROR_BUNDLE" type:"existingdir" placeholder:"DIR" help:"With --mirror: bundle, written by events export, with the beginning of the history. Repeatable: the bundles that continue it, in order."`
	NATS       natsFlags `embed:"" prefix:"mirror-" envprefix:"NOVELGATE_MIRROR_"`

	// Set by validate:
	origin  string // public URL of the origin
	keys    []string
	bundles audit.Bundles
}

func (f *mirrorFlags) overNATS() bool {
	return strings.HasPrefix(f.From, "nats://") || strings.HasPrefix(f.From, "tls://")
}

// validateNATS checks the flags of a mirror that reads from NATS servers. It sets origin.
func (f *mirrorFlags) validateNATS() error {
	if err := requireNATS("--mirror", f.From); err != nil {
		return err
	}
	if f.Origin == nil {
		return errors.New("--mirror with NATS servers needs --origin: the public URL of the service that signs the events")
	}
	if f.AuditorKey != "" {
		return errors.New("--auditor-key is for a --mirror with a public URL: events from NATS need none")
	}
	f.origin = strings.TrimRight(f.Origin.String(), "/")
	return errors.Join(requireHTTP("--origin", f.Origin), f.NATS.validate("--mirror"))
}

// validateURL checks the flags of a mirror that reads from its origin. It sets origin.
func (f *mirrorFlags) validateURL() error {
	if f.Origin != nil {
		return errors.New("--origin is for a --mirror with NATS servers: a public URL in --mirror is that of the origin")
	}
	if f.NATS != (natsFlags{}) {
		return errors.New("--mirror-credentials, --mirror-ca, --mirror-cert and --mirror-key are for a --mirror with NATS " +
			"servers")
	}
	origin, err := url.Parse(f.From)
	if err != nil {
		return errors.New("--mirror must be the public URL of a service, or addresses such as nats://host:4222")
	}
	f.origin = strings.TrimRight(origin.String(), "/")
	if err := requireHTTP("--mirror", origin); err != nil {
		return err
	}
	if f.AuditorKey == "" {
		return errors.New("--mirror needs --auditor-key")
	}
	secret, err := apikey.Parse(f.AuditorKey)
	if err != nil || secret.Kind() != apikey.Auditor && secret.Kind() != apikey.Staff {
		return errors.New("--auditor-key is not the API key of an auditor")
	}
	return nil
}

// validate checks the flags before anything starts. It reads the files, and sets keys and bundles. A mirror must
// not sign, and must not relay to the streams that it reads.
func (f *mirrorFlags) validate(signing *LedgerFlags, relaying *RelayFlags) (err error) {
	if f.From == "" {
		if f.Origin != nil || f.OriginKey != "" || len(f.Bundle) > 0 || f.NATS != (natsFlags{}) {
			return errors.New("--origin, --origin-key, --mirror-bundle, --mirror-credentials, --mirror-ca, --mirror-cert and " +
				"--mirror-key are for --mirror")
		}
		return nil
	}
	validateSource := f.validateURL
	if f.overNATS() {
		validateSource = f.validateNATS
	}
	if err := validateSource(); err != nil {
		return err
	}
	if signing.Origin != "" || signing.PublishDir != "" || signing.PublishURL != nil || len(signing.Witness) > 0 {
		return errors.New("--mirror: a mirror does not sign or publish a ledger, so the flags --ledger-origin, " +
			"--ledger-publish-dir, --ledger-publish-url and --ledger-witness are for its origin")
	}
	if relaying.URL == f.From && relaying.NATS == f.NATS {
		return errors.New("--relay: this is where the mirror reads its events; relay to another account")
	}
	if f.keys, err = f.readKeys(); err != nil {
		return err
	}
	if f.bundles, err = audit.OpenBundles(f.Bundle); err != nil {
		return fmt.Errorf("--mirror-bundle: %w", err)
	}
	if len(f.bundles) > 0 && f.bundles.First() > 0 {
		return errors.New("--mirror-bundle: the first bundle does not begin with log index 0")
	}
	return nil
}

// readKeys returns the keys of the file of --origin-key.
func (f *mirrorFlags) readKeys() ([]string, error) {
	if f.OriginKey == "" {
		return nil, errors.New("--mirror needs --origin-key")
	}
	text, err := os.ReadFile(f.OriginKey)
	if err != nil {
		return nil, fmt.Errorf("--origin-key: %w", err)
	}
	keys := strings.Fields(string(text))
	if len(keys) == 0 {
		return nil, errors.New("--origin-key: there is no key in the file")
	}
	for _, key := range keys {
		if _, err := (ledger.Checkpoint{}).SignedBy(key); err != nil { // it fails for text that is not a key
			return nil, fmt.Errorf("--origin-key: %w", err)
		}
	}
	return keys, nil
}

// source returns the source of the history, and a function that closes its connection.
func (f *mirrorFlags) source(ctx context.Context, logger *slog.Logger) (audit.Source, func(), error) {
	ledgerService := &audit.Service{Client: &http.Client{}, URL: f.origin + "/ledger"}
	if !f.overNATS() {
		return &audit.Live{Service: ledgerService, Key: f.AuditorKey}, func() {}, nil
	}
	connection := f.NATS.connection(f.From, logger)
	connection.Name, connection.Inbox = "novelgate mirror", "_INBOX_mirror" // which its NATS user may use
	conn, err := relay.Connect(ctx, connection)
	if err != nil {
		return nil, nil, err
	}
	source, err := relay.NewSource(conn, ledgerService)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return source, conn.Close, nil
}

// addMirror makes the database the mirror of another service, and adds the background work of a mirror. Without
// --mirror it refuses the database of a mirror. If the mirror was promoted, it ignores the flag.
func (s *service) addMirror(ctx context.Context, f *mirrorFlags) error {
	pool := s.db.pools.General
	if f.From == "" {
		return refuseMirror(ctx, pool, "start it with --mirror")
	}
	promoted, err := handover.Latest(ctx, pool)
	if err != nil {
		return err
	}
	if promoted != nil {
		s.logger.WarnContext(ctx, "This mirror was promoted, so --mirror is ignored: start it without")
		return nil
	}
	if err := mirror.Begin(ctx, pool, f.origin); err != nil {
		return err
	}
	source, disconnect, err := f.source(ctx, s.logger)
	if err != nil {
		return err
	}
	var streams []string
	for _, p := range projections.Inline() {
		streams = append(streams, p.Streams()...)
	}
	s.mirror = mirror.New(mirror.Config{
		Pool: pool, URL: f.origin, Keys: f.keys, Bundles: f.bundles, Source: source,
		Inline: projections.QueueInline, InlineStreams: streams, Erase: staff.EraseMirrored,
		Wake: s.wake, Now: s.now, Logger: s.logger,
	})
	s.asMirror = append(s.asMirror, func(ctx context.Context) { defer disconnect(); s.mirror.Run(ctx) },
		func(ctx context.Context) { s.copyPromotions(ctx, f.origin) })
	s.collectors = append(s.collectors, s.mirror)
	return nil
}

// refuseMirror returns an error for the database of a mirror. The error says what to do instead.
func refuseMirror(ctx context.Context, db database.Querier, instead string) error {
	origin, err := mirror.Origin(ctx, db)
	if err == nil && origin != "" {
		err = fmt.Errorf("%w of %s: %s", mirror.ErrMirror, origin, instead)
	}
	return err
}

// requireOrigin returns an error for a database that accepts no commands: that of a mirror, or of a service that was
// replaced. For a mirror the error says what to do instead.
func requireOrigin(ctx context.Context, db database.Querier, instead string) error {
	if err := refuseMirror(ctx, db, instead); err != nil {
		return err
	}
	role, err := handover.ReadRole(ctx, db)
	if err == nil && role.HandedOver {
		err = fmt.Errorf("this service has been replaced by %s", cmp.Or(role.Successor, "another one"))
	}
	return err
}

// mirrorStatus returns the state of the mirror for /readyz; nil unless the database is a mirror now.
func (s *service) mirrorStatus() any {
	if s.mirror == nil || s.roles.last().Mirrors == "" {
		return nil
	}
	return s.mirror.Status()
}

// copyPromotions copies the promotions of the origin every successorPause until ctx ends.
func (s *service) copyPromotions(ctx context.Context, origin string) {
	client := &http.Client{Timeout: successorTimeout}
	for failed := false; ctx.Err() == nil; eventlog.Sleep(ctx, successorPause) {
		err := handover.CopyPromotions(ctx, s.db.pools.General, client, origin)
		if err != nil && !failed && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "Cannot copy the promotions of the origin", slog.Any("error", err))
		}
		failed = err != nil
	}
}
