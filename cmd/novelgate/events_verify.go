package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

type eventsVerify struct {
	CommonFlags
	Dirs    []string `arg:"" optional:"" name:"dir" type:"existingdir" help:"Bundles to verify, without a database."`
	URL     *url.URL `placeholder:"URL" help:"Public URL of a service: verify the published entries."`
	Key     []string `placeholder:"KEY" help:"Public key, or a file of keys: one of them must have signed."`
	Against []string `placeholder:"PATH" type:"existingpath" help:"A kept checkpoint or older bundle that the history must continue. One that ends before the first event of DIR cannot be compared, which is a fault."`

	Policy string `placeholder:"FILE" type:"existingfile" help:"Policy (C2SP tlog-policy): one of its logs must have signed, and its quorum of witnesses must have cosigned. Without --key, its logs are the keys (default: no witness is demanded)."`

	FirstLogIndex int64 `placeholder:"INDEX" help:"First log index of DIR, for a bundle that continues others. Events before it are not verified; verify them separately (default: 0, everything)."`

	Projections bool `default:"true" negatable:"" help:"With the database: replay the events and compare all projected tables. Needs the right to create schemas, and disk space for a copy of the largest projection."`
}

func (*eventsVerify) Help() string {
	return "Give a bundle, and after it those that continue it. Without DIR and --url, it verifies the database. " +
		"`ledger status` prints the keys for --key. Without keys from --key or --policy, it uses those in the " +
		"history, which proves less."
}

// run verifies the history and prints a report. A fault of the history is an error with exit code 1.
func (c *eventsVerify) run(ctx context.Context, env *environment) (err error) {
	config := audit.Config{
		First: c.FirstLogIndex, Workers: auditWorkers(), Now: env.now, Progress: env.progress("verify", "events"),
	}
	if err := c.configure(ctx, &config); err != nil {
		return err
	}
	switch {
	case len(c.Dirs) > 0 && c.URL != nil:
		return errors.New("verify either directories or --url")
	case len(c.Dirs) > 0:
		if config.Source, err = audit.OpenBundles(c.Dirs); err != nil {
			return err
		}
		return c.verify(ctx, env, config, nil)
	case c.URL != nil:
		prefix := strings.TrimSuffix(strings.TrimSuffix(c.URL.String(), "/"), "/ledger") + "/ledger"
		const timeout = 30 * time.Second // of one request
		config.Source = &audit.Service{Client: &http.Client{Timeout: timeout}, URL: prefix}
		return c.verify(ctx, env, config, nil)
	}
	parameters := map[string]string{
		"projections": strconv.FormatBool(c.Projections), "key": strings.Join(c.Key, ","),
		"against": strings.Join(c.Against, ","), "policy": c.Policy,
	}
	return env.withAccessLog(ctx, parameters, func(pool *pgxpool.Pool) (int64, error) {
		config.Source = audit.NewDatabase(pool)
		err := c.verify(ctx, env, config, pool)
		if err == nil && c.FirstLogIndex == 0 {
			err = ledger.RecordVerified(ctx, pool)
		}
		return 0, err // no event is shown
	})
}

// readKeys returns the keys of --key, which are keys or files of keys.
func readKeys(given []string) (keys []string, err error) {
	for _, key := range given {
		text, err := os.ReadFile(key)
		switch {
		case err == nil:
			keys = append(keys, strings.Fields(string(text))...)
		case errors.Is(err, fs.ErrNotExist) && strings.Count(key, "+") >= 2:
			keys = append(keys, key)
		default:
			return nil, fmt.Errorf("--key: %w", err)
		}
	}
	if len(given) > 0 && len(keys) == 0 {
		return nil, errors.New("--key: there is no key in the file")
	}
	return keys, nil
}

// configure reads the files that the flags name.
func (c *eventsVerify) configure(ctx context.Context, config *audit.Config) error {
	var err error
	if config.Keys, err = readKeys(c.Key); err != nil {
		return err
	}
	if c.Policy != "" {
		text, err := os.ReadFile(c.Policy)
		if err == nil {
			config.Policy, err = audit.ParsePolicy(text)
		}
		if err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
		if len(config.Keys) == 0 {
			config.Keys = config.Policy.Logs
		}
	}
	config.Kept = map[string][]byte{}
	for _, path := range c.Against { // a checkpoint, or an older bundle
		text, err := os.ReadFile(path)
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			var older audit.Bundles
			if older, err = audit.OpenBundles([]string{path}); err == nil {
				config.Older = older
				text, err = older.Checkpoint(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("--against: %w", err)
		}
		config.Kept[path] = text
	}
	return nil
}

// verification is the result for the history and its projections.
type verification struct {
	*audit.Report
	Projections []rebuild.Comparison `json:"projections"` // of a database; empty without a comparison

	historyOK bool // without regard to the projections
}

// verify verifies a source and prints the report. pool is nil unless the source is a database.
func (c *eventsVerify) verify(ctx context.Context, env *environment, config audit.Config, pool *pgxpool.Pool) error {
	report, err := audit.Verify(ctx, config)
	if errors.Is(err, audit.ErrFirst) {
		first := config.Source.First()
		advice := "leave --first-log-index out"
		if first > 0 {
			advice = fmt.Sprintf("give the bundles in front of it as well, or --first-log-index %d if you have verified what "+
				"is in front of it before", first)
		}
		err = fmt.Errorf("%w: %s", err, advice)
	}
	if err != nil {
		return err
	}
	found := verification{Report: report, Projections: []rebuild.Comparison{}, historyOK: report.OK}
	if pool != nil && c.Projections {
		if err := found.compareProjections(ctx, env, pool); err != nil {
			return err
		}
	}
	if !found.KeysGiven {
		fmt.Fprintln(env.stderr,
			"The key is from the history, so it is only the operator's own word. Pass a key that you got before with --key.")
	}
	if err := env.show(result{found, found.print}, nil); err != nil {
		return err
	}
	switch {
	case found.OK:
		return nil
	case found.historyOK:
		return fmt.Errorf("the tables do not agree with the history: %s", printable(found.Faults[0].String()))
	default:
		return fmt.Errorf("the history does not verify: %s", printable(found.Faults[0].String()))
	}
}

// compareProjections replays the log for each projection in turn, and adds the differences to the report. In each table
// the first rows that differ are a fault each, and all others together are one fault. A projection that cannot be
// compared is one fault.
func (v *verification) compareProjections(ctx context.Context, env *environment, pool *pgxpool.Pool) error {
	built, err := projections.Built(ctx, pool)
	if err != nil {
		return err
	}
	for _, p := range append(built, projections.Inline()...) {
		progress := env.progress("replay "+p.Name(), "events")
		fault := func(count int64, format string, details ...any) {
			v.Add(audit.Fault{Part: audit.Projection(p.Name()), Count: count, Detail: fmt.Sprintf(format, details...)})
		}
		compared, err := rebuild.Compare(ctx, rebuild.Config{
			Pool: pool, Projection: p, Logger: env.logger(),
			Progress: func(at rebuild.Progress) { progress(int64(at.Done), v.Size) },
		})
		switch {
		case errors.Is(err, rebuild.ErrNotComparable):
			fault(1, "%v", err)
			continue
		case errors.Is(err, rebuild.ErrMayNotCreate):
			return fmt.Errorf("%w: the replay needs one beside the live tables. Grant CREATE on the database to this role, or "+
				"leave the projections out with --no-projections", err)
		case err != nil:
			return err
		}
		v.Projections = append(v.Projections, compared)
		for i := range compared.Tables {
			t := &compared.Tables[i]
			for j := range t.Differences {
				fault(1, "table %s: %s", t.Name, t.Differences[j].String())
			}
			if more := t.DifferenceCount - int64(len(t.Differences)); more > 0 {
				fault(more, "table %s: %d rows more differ", t.Name, more)
			}
		}
	}
	return nil
}

// print prints the report as a table.
func (v *verification) print(env *environment) {
	var rows [][]any
	add := func(name, format string, values ...any) {
		rows = append(rows, []any{name, fmt.Sprintf(format, values...)})
	}
	verdict := "everything agrees"
	if v.Unverified > 0 {
		verdict = fmt.Sprintf("everything agrees from log index %d on", v.FirstLogIndex)
	}
	if v.ErasedWithoutRecord > 0 {
		verdict += ", but events are erased WITHOUT A RECORD of it"
	}
	switch {
	case !v.historyOK:
		verdict = "the history DOES NOT VERIFY"
	case !v.OK:
		verdict = "the history agrees, but the tables DO NOT AGREE with it"
	}
	add("VERIFY", "%s", verdict)
	add("checkpoint", "%d entries of %s", v.Size, v.Origin)
	add("root", "%v", v.Root)
	for _, key := range v.Keys {
		add("signed by", "%s", key)
	}
	for _, key := range v.CosignedBy {
		add("cosigned by", "%s", key)
	}
	add("hashed", "%d entries, from log index %d on", v.Entries, v.FirstLogIndex)
	switch {
	case v.EntriesOnly:
		add("compared", "no events, there are entries only")
	case v.Erased > 0:
		add("compared", "%d events against their entries, %d of them erased", v.Events, v.Erased)
	default:
		add("compared", "%d events against their entries", v.Events)
	}
	add("streams", "%d, their versions without gaps unless said below", v.Streams)
	for _, kept := range v.Kept {
		outcome := "could NOT be compared"
		if kept.Agrees != nil {
			outcome = map[bool]string{true: "agrees", false: "does NOT agree"}[*kept.Agrees]
		}
		add("kept", "%s, %d entries: %s", kept.Name, kept.Size, outcome)
	}
	add("took", "%.1f s, %.0f events/s", v.Seconds, float64(v.Entries)/max(v.Seconds, 0.001))
	for _, c := range v.Projections {
		tables := make([]string, len(c.Tables))
		for i, t := range c.Tables {
			agrees := "as the live ones"
			if t.DifferenceCount > 0 {
				agrees = fmt.Sprintf("the live ones DIFFER in %d", t.DifferenceCount)
			}
			tables[i] = fmt.Sprintf("%s %d rows, %s", t.Name, t.ReplayedRows, agrees)
		}
		add("replayed", "%s up to position %d: %s", c.Name, c.Position, strings.Join(tables, "; "))
	}
	if v.Unverified > 0 {
		add("NOT VERIFIED", "%d entries in front of log index %d, and their events", v.Unverified, v.FirstLogIndex)
	}
	if v.ErasedWithoutRecord > 0 {
		add("NO RECORD", "%d erased events, the first at log index %d, have no later erasure on record: one is running, was "+
			"interrupted or is recorded after these entries, or the data was removed without one",
			v.ErasedWithoutRecord, *v.FirstErasedWithoutRecord)
	}
	for i := range v.Faults {
		add("WRONG", "%s", v.Faults[i].String())
	}
	if v.FaultCount > int64(len(v.Faults)) {
		add("WRONG", "%d in all, with each event and each row counted", v.FaultCount)
	}
	env.table(rows...)
}
