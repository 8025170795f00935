package handover

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/mirror"
)

// Mirror is the database of a mirror that is promoted.
type Mirror struct {
	Pool *pgxpool.Pool
	// KeyFile and Memory are the paths of the keys and the memory with which the ledger will be signed.
	KeyFile, Memory string
	// Wait limits each wait: for all events of the handover to arrive and to be sealed, for locks of the tables, and for
	// the end of a handover or undo that runs at the origin.
	Wait time.Duration
	// Stopped promotes a mirror that has stopped, see mirror.StoppedError. PromoteLost then does not ask the origin.
	Stopped bool
	// OriginAnswers promotes without a handover although the origin, or a mirror at the URL of the origin, answers.
	OriginAnswers bool
	// Client asks the origin whether it answers, and whether it still hands over.
	Client *http.Client
	Logger *slog.Logger
}

// Promote makes the mirror continue the log that was handed over: it verifies that its log is the tree of the final
// checkpoint, places keys and memory, and opens the log for appends. It fails with ErrRefused if the origin answers and
// has undone the handover. It can be repeated.
func (m *Mirror) Promote(ctx context.Context, token *Token) (*Promotion, error) {
	if err := m.wantNoFence(ctx); err != nil {
		return nil, err
	}
	own, err := logID(ctx, m.Pool)
	if err != nil {
		return nil, err
	}
	if own != token.Log {
		return nil, fmt.Errorf("%w: the file is for the mirror that answered at %s, and this is another one", ErrRefused,
			token.Successor)
	}
	if done, err := find(ctx, m.Pool, token.Promotion); err != nil || done != nil {
		return done, err
	}
	last, err := m.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	at, err := m.await(ctx, last, token)
	if err != nil {
		return nil, err
	}
	if err := m.wantPersonalData(ctx, token); err != nil {
		return nil, err
	}
	if err := storePromotions(ctx, m.Pool, token.Promotions); err != nil {
		return nil, err
	}
	p := &Promotion{
		ID: token.Promotion, Origin: last.Origin, NextOrigin: last.Origin, Entries: last.Tree.N, Root: last.Tree.Hash,
		KnownEntries: last.Tree.N,
	}
	return m.open(ctx, at, p, opening{
		done: func() (*Promotion, error) { return find(ctx, m.Pool, p.ID) },
		write: func(ctx context.Context, tx pgx.Tx) error {
			if err := writeWebhooks(ctx, tx, token.Webhooks); err != nil {
				return err
			}
			return token.signing().BindMemory(ctx, tx, last.Origin)
		},
		place: func() error {
			if err := m.wantHandover(ctx, at.Origin, own, token); err != nil {
				return err
			}
			return token.signing().Place(m.KeyFile, m.Memory)
		},
	})
}

// wantNoFence fails with ErrRefused if another service continues the log of the database.
func (m *Mirror) wantNoFence(ctx context.Context) error {
	f, err := readFence(ctx, m.Pool)
	if err != nil || f == nil {
		return err
	}
	return fmt.Errorf("%w: this database appends nothing any more: it was handed over to, or replaced by, %q", ErrRefused,
		f.successor)
}

// verify returns the final checkpoint of a token. It fails with ErrRefused unless one of the keys of the origin that
// the mirror knows has signed the checkpoint.
func (m *Mirror) verify(ctx context.Context, token *Token) (ledger.Checkpoint, error) {
	last, err := token.signing().Verify()
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	known, err := ledger.NewStore(m.Pool).SignersOf(ctx, last)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	if len(known) == 0 {
		return ledger.Checkpoint{}, fmt.Errorf("%w: the final checkpoint bears no signature of a key that the mirror knows "+
			"of its origin", ErrRefused)
	}
	return last, nil
}

// wantPersonalData fails with ErrRefused if the mirror has more erased events than the origin: then it lacks personal
// data, for instance because NATS withholds it.
func (m *Mirror) wantPersonalData(ctx context.Context, token *Token) error {
	erased, err := countErased(ctx, m.Pool)
	if err != nil {
		return err
	}
	if erased > token.Erased {
		return fmt.Errorf("%w: the mirror lacks the personal data of %d events of the origin. Undo the handover "+
			"there with this file, and make the mirror again from the URL of the origin or a bundle", ErrRefused,
			erased-token.Erased)
	}
	return nil
}

// wantHandover checks that the service at the URL of the origin still hands over with the token. It waits until no
// handover, undo or promotion is in progress there. It fails with ErrRefused for
//
//   - a service that does not hand over with the token: the handover was undone, or another service has the URL
//   - a mirror, for instance this one, whose log has the id own
//   - a service whose answer shows its role, but not whether it hands over now
//
// It does not fail if no service answers, because the origin may be off, or if only a standby of the origin's database
// answers, which may not have the handover yet. While it waits, it fails in both cases.
func (m *Mirror) wantHandover(ctx context.Context, url string, own uuid.UUID, token *Token) error {
	theirs, err := ask(ctx, m.Client, url)
	switch {
	case err != nil && theirs.knowsRole():
		return fmt.Errorf("%w: %s answers, and does not say whether the handover was undone; run this again: %w", ErrRefused,
			url, err)
	case err != nil:
		return nil // it is off
	}
	waiting, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	for theirs.Changing && theirs.whichMirror(own) == "" {
		if !eventlog.Sleep(waiting, poll) {
			return waitError(waiting, "`novelgate handover` runs at %s", url)
		}
		theirs, err = ask(ctx, m.Client, url)
		if err == nil && theirs.Standby {
			err = errStandby
		}
		if err != nil {
			return fmt.Errorf("%w: `novelgate handover` ran at %s a moment ago: %w", ErrRefused, url, err)
		}
	}
	if where := theirs.whichMirror(own); where != "" {
		return fmt.Errorf("%w: %s leads to %s, which cannot say whether the handover was undone: let it lead to the origin "+
			"or nowhere, or start this mirror with another URL of the origin", ErrRefused, url, where)
	}
	standby := theirs.Handover == nil && theirs.isStandby()
	handsOver := theirs.Handover != nil && *theirs.Handover == token.Promotion
	if standby || handsOver {
		return nil
	}
	return fmt.Errorf("%w: the handover was undone, or another service has the address of the origin: %s answers, and "+
		"does not hand over with this file", ErrRefused, url)
}

// await waits until the mirror has exactly the events of the final checkpoint, and stores the checkpoint.
func (m *Mirror) await(ctx context.Context, last ledger.Checkpoint, token *Token) (*mirror.State, error) {
	limited, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	for {
		at, err := m.state(ctx)
		if err != nil {
			return nil, err
		}
		n := at.Edge.Size()
		switch {
		case n == last.Tree.N && at.Edge.Root() == last.Tree.Hash:
			return at, m.adopt(limited, last, token)
		case n >= last.Tree.N:
			return nil, fmt.Errorf("%w: the %d events of the mirror are not those of the final checkpoint over %d: it is "+
				"another history", ErrRefused, n, last.Tree.N)
		}
		if !eventlog.Sleep(limited, poll) {
			return nil, waitError(limited, "the mirror has %d of %d events. It must run until it has all; `/readyz` of the "+
				"mirror says why it has stopped", n, last.Tree.N)
		}
	}
}

// state returns the state of the mirror. It fails with ErrRefused if the database is not a mirror, or if the mirror has
// stopped, unless Stopped is set.
func (m *Mirror) state(ctx context.Context) (*mirror.State, error) {
	at, err := mirror.ReadState(ctx, m.Pool)
	switch {
	case err != nil:
		return nil, err
	case at == nil:
		return nil, fmt.Errorf("%w: this database is not a mirror", ErrRefused)
	case at.Stopped != "" && !m.Stopped:
		return nil, fmt.Errorf("%w: the mirror has stopped at log index %d: %s. If the origin is at fault, "+
			"--lost-origin --stopped continues from the events before", ErrRefused, at.StoppedAt, at.Stopped)
	}
	return at, nil
}

// adopt seals all events and stores the final checkpoint, if the mirror has not done so yet.
func (m *Mirror) adopt(ctx context.Context, last ledger.Checkpoint, token *Token) error {
	if err := Seal(ctx, m.Pool, m.Logger); err != nil {
		return err
	}
	keys, err := token.signing().VerifierKeys(last.Origin)
	if err != nil {
		return err
	}
	adopted, err := ledger.Adopt(ctx, m.Pool, last, keys)
	if err == nil && !adopted {
		err = fmt.Errorf("%w: the ledger of the mirror lacks events of the final checkpoint", ErrRefused)
	}
	return err
}

// opening has the steps of open in which Promote and PromoteLost differ.
type opening struct {
	done  func() (*Promotion, error)                 // finds the promotion; nil if it is not done
	write func(ctx context.Context, tx pgx.Tx) error // stores in the database what the new origin needs
	place func() error                               // stores keys and memory, with all locks held, just before the commit
}

// open makes the mirror an origin, in one transaction. If another process promotes it meanwhile, open returns that
// promotion and places nothing.
func (m *Mirror) open(ctx context.Context, at *mirror.State, p *Promotion, o opening) (*Promotion, error) {
	err := pgx.BeginFunc(ctx, m.Pool, func(tx pgx.Tx) error {
		limited, cancel := context.WithTimeout(ctx, m.Wait)
		defer cancel()
		_, err := tx.Exec(limited, `SELECT pg_advisory_xact_lock(`+lockKeySQL+`)`)
		if err == nil {
			err = mirror.End(limited, tx, at)
		}
		if err == nil {
			err = record(limited, tx, p)
		}
		if err == nil {
			err = o.write(limited, tx)
		}
		if err != nil && limited.Err() != nil {
			err = waitError(limited, "a VACUUM, an index build or another transaction has locked the log: %w", err)
		}
		if err != nil {
			return err
		}
		return o.place()
	})
	done, failed := o.done()
	switch {
	case done != nil:
		return done, nil
	case err != nil:
		return nil, fmt.Errorf("promote the mirror: %w", err)
	}
	return nil, failed
}

// PromoteLost makes the mirror continue the log of an origin that is lost, under the name next, or, if next is empty, a
// name made from the former one. All events of the origin that the mirror does not have are lost. known are checkpoints
// of the origin from other sources; with them Promotion.KnownEntries says how many events the origin had at least.
// PromoteLost can be repeated.
func (m *Mirror) PromoteLost(ctx context.Context, next string, known []ledger.Checkpoint) (*Promotion, error) {
	if err := m.wantNoFence(ctx); err != nil {
		return nil, err
	}
	if done, err := Latest(ctx, m.Pool); err != nil || done != nil {
		return done, err
	}
	at, err := m.state(ctx)
	if err != nil {
		return nil, err
	}
	if !m.Stopped && !m.OriginAnswers {
		if err := m.wantLost(ctx, at.Origin); err != nil {
			return nil, err
		}
	}
	if err := m.sealAll(ctx); err != nil {
		return nil, err
	}
	p, err := m.lostPromotion(ctx, at, next, known)
	if err != nil {
		return nil, err
	}
	return m.open(ctx, at, p, opening{
		done:  func() (*Promotion, error) { return Latest(ctx, m.Pool) },
		write: func(ctx context.Context, tx pgx.Tx) error { return ledger.StartOrigin(ctx, tx, p.NextOrigin) },
		place: func() error { return ledger.EnsureKey(m.KeyFile, m.Memory, p.NextOrigin) },
	})
}

// lostPromotion returns the promotion that PromoteLost records.
func (m *Mirror) lostPromotion(
	ctx context.Context, at *mirror.State, next string, known []ledger.Checkpoint,
) (*Promotion, error) {
	store := ledger.NewStore(m.Pool)
	sealed, err := ledger.ReadSealed(ctx, m.Pool)
	if err != nil {
		return nil, err
	}
	if sealed.Origin() == "" {
		return nil, fmt.Errorf("%w: the mirror has no checkpoint of its origin yet", ErrRefused)
	}
	tree := tlog.Tree{N: at.Edge.Size(), Hash: at.Edge.Root()}
	p := &Promotion{
		ID: uuid.New(), Origin: sealed.Origin(), Entries: tree.N, Root: tree.Hash, KnownEntries: tree.N,
		NextOrigin: next,
	}
	if at.Seen != nil && at.Seen.Origin == p.Origin {
		p.KnownEntries = max(p.KnownEntries, at.Seen.Tree.N)
	}
	for _, c := range known {
		keys, err := store.SignersOf(ctx, c)
		if err != nil {
			return nil, err
		}
		if len(keys) == 0 || c.Origin != p.Origin {
			return nil, fmt.Errorf("%w: the checkpoint over %d entries of %s is not signed with a key of %s", ErrRefused,
				c.Tree.N, c.Origin, p.Origin)
		}
		p.KnownEntries = max(p.KnownEntries, c.Tree.N)
	}
	if p.NextOrigin == "" {
		const digits = 8 // of the promotion's id, before its first hyphen
		p.NextOrigin = nameSuffix.ReplaceAllString(p.Origin, "") + "/" + p.ID.String()[:digits]
	}
	return p, nil
}

// wantLost fails with ErrRefused if the origin, also on a standby, or a mirror answers at the URL of the origin.
func (m *Mirror) wantLost(ctx context.Context, url string) error {
	theirs, err := ask(ctx, m.Client, url)
	if err != nil && !theirs.knowsRole() {
		return nil // it is off
	}
	own, err := logID(ctx, m.Pool)
	if err != nil {
		return err
	}
	if where := theirs.whichMirror(own); where != "" {
		return fmt.Errorf("%w: %s leads to %s, so it is not known whether the origin still runs. If it is off, "+
			"--origin-answers promotes", ErrRefused, url, where)
	}
	return fmt.Errorf("%w: the origin answers at %s, and what it accepts from now on is lost: use `novelgate handover` "+
		"there, or switch it off. --origin-answers promotes all the same", ErrRefused, url)
}

func (m *Mirror) sealAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	return Seal(ctx, m.Pool, m.Logger)
}

// nameSuffix is what ledger.Identify or PromoteLost appends to the name of an origin.
var nameSuffix = regexp.MustCompile(`/[0-9a-f]{8}$`)
