package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/internal/database"
)

// Errors of a handover.
var (
	// ErrRefused is returned when the conditions of a handover, its undoing or a promotion are not met, or not in time.
	ErrRefused = errors.New("refused")
	// ErrReplaced is returned for a database whose log another service continues already.
	ErrReplaced = errors.New("another service has replaced this one")
	// ErrNoFile is returned when the last steps of a handover fail. The fence is not lifted; a second call continues.
	ErrNoFile = errors.New("commands are refused, and the file is not written: run the command again, with the same " +
		"FILE or another one")
)

// maxBehind is the maximum number of entries that a mirror may lack when the handover begins. Commands are refused
// until the mirror has these entries.
const maxBehind = 20_000

var (
	errBehind      = errors.New("it does not serve the final checkpoint")
	errOtherMirror = fmt.Errorf("%w: another mirror answers than the one of this handover", ErrRefused)
	errAccepts     = errors.New("the successor accepts commands, and does not say whether it was promoted")
	errPromoting   = fmt.Errorf("%w: a promotion of the mirror is under way; run this again when it has ended", ErrRefused)
)

const poll = 20 * time.Millisecond // between checks of what a handover waits for

// waitError returns the error of a wait that ctx has ended: the error of ctx if the operator has interrupted the wait,
// and ErrRefused with a reason after a time-out.
func waitError(ctx context.Context, reason string, args ...any) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(reason, args...))
}

// Origin is the database of an origin that hands over.
type Origin struct {
	Pool *pgxpool.Pool
	// KeyFile and Memory are the paths of the keys and the memory with which the ledger is signed.
	KeyFile, Memory string
	// Successor is the public URL of the mirror that continues the log.
	Successor string
	Client    *http.Client
	// LeaveImports hands over although bulk imports have not ended. Their partners must send them again.
	LeaveImports bool
	// Force assumes that a successor that does not say whether it was promoted was not. With IgnorePromotion, it assumes
	// that the promoted service is off for good.
	Force bool
	// IgnorePromotion lets Undo lift the fence of a database that was replaced. The promotion is ignored for good.
	IgnorePromotion bool
	// Wait limits the wait for running transactions, then the time in which commands are refused until the mirror serves
	// the final checkpoint, and then the wait for the lock of the memory. After the second, the fence is lifted.
	Wait time.Duration
	// Claim reserves a file for the token of a promotion, before anything changes. Default: the token has no file.
	Claim func(promotion uuid.UUID) error
	// Report gets a line of text after each step.
	Report func(text string)
	Logger *slog.Logger

	askTimeout time.Duration // limits the last question before the fence is lifted; default: the constant askTimeout
}

// HandOver fences the database, signs all of its log, waits until the successor serves the final checkpoint, and
// retires the memory. It returns the token for the successor. After an interruption, a second call continues. If
// signing or the wait for the successor fails, HandOver lifts the fence if that is safe, and otherwise says that
// commands are still refused. HandOver fails with ErrRefused while another call, or Undo, is under way.
func (o *Origin) HandOver(ctx context.Context) (token *Token, err error) {
	err = withLock(ctx, o.Pool, func(conn *pgx.Conn) (err error) { token, err = o.handOver(ctx, conn); return err })
	return token, err
}

// handOver hands over with the connection that holds the lock.
func (o *Origin) handOver(ctx context.Context, conn *pgx.Conn) (*Token, error) {
	f, err := o.begin(ctx, conn)
	if err != nil {
		return nil, err
	}
	last, err := o.awaitSuccessor(ctx, f)
	if err != nil {
		return nil, o.abort(ctx, conn, f, err)
	}
	token, err := o.complete(ctx, f, last)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoFile, err)
	}
	return token, nil
}

// complete completes the handover: from then on, only the token can undo it.
func (o *Origin) complete(ctx context.Context, f *fence, last ledger.Checkpoint) (*Token, error) {
	tag, err := o.Pool.Exec(ctx, completeSQL, f.promotion)
	if err == nil && tag.RowsAffected() != 1 {
		err = errChanged
	}
	if err != nil {
		return nil, fmt.Errorf("complete the handover: %w", err)
	}
	signing, err := o.retire(ctx, last, f)
	if err != nil {
		return nil, err
	}
	o.Report("The memory of the ledger is retired: nothing can be signed here.")
	earlier, err := List(ctx, o.Pool)
	if err != nil {
		return nil, err
	}
	erased, err := countErased(ctx, o.Pool)
	if err != nil {
		return nil, err
	}
	webhooks, err := readWebhooks(ctx, o.Pool)
	if err != nil {
		return nil, err
	}
	return &Token{
		Format: formatName, Promotion: f.promotion, Successor: f.successor, Log: f.log.UUID,
		Checkpoint: string(signing.Last), Keys: signing.Keys, Memory: signing.Memory, Promotions: earlier, Erased: erased,
		Webhooks: webhooks,
	}, nil
}

// abort lifts the fence of a handover that has failed, unless the handover is complete or the database was replaced. It
// returns failed, the reason of the failure, and says if commands are still refused.
func (o *Origin) abort(ctx context.Context, conn *pgx.Conn, f *fence, failed error) error {
	if f.complete || errors.Is(failed, ErrReplaced) {
		return failed
	}
	ctx = context.WithoutCancel(ctx)
	lifted := false
	lift := func(conn *pgx.Conn) error {
		left, err := readFence(ctx, conn)
		if err != nil || left == nil || left.promotion != f.promotion {
			return err // without an error, this fence does not stand
		}
		err = o.reopen(ctx, conn, f, nil) // f is not complete
		lifted = err == nil
		return err
	}
	err := lift(conn)
	if conn.IsClosed() { // it was lost, and the lock with it
		err = o.withNewLock(ctx, lift)
	}
	switch {
	case errors.Is(err, ErrReplaced):
		return errors.Join(failed, err)
	case err != nil:
		return fmt.Errorf("%w; commands are still refused: run `novelgate handover --undo`: %w", failed, err)
	case lifted:
		o.Report("The fence is lifted: this service accepts commands again.")
	}
	return failed
}

// withNewLock runs do as withLock does, after the connection that had the lock was lost.
func (o *Origin) withNewLock(ctx context.Context, do func(conn *pgx.Conn) error) error {
	o.Pool.Reset() // its other connections may be lost, too
	return withLock(ctx, o.Pool, do)
}

// begin fences the database, or returns the fence of an earlier call.
func (o *Origin) begin(ctx context.Context, conn *pgx.Conn) (*fence, error) {
	f, err := o.readFence(ctx)
	if err != nil {
		return nil, err
	}
	if f != nil {
		return f, o.resume(ctx, f)
	}
	if err := o.check(ctx); err != nil {
		return nil, err
	}
	if err := o.awaitTransactions(ctx); err != nil {
		return nil, err
	}
	mirror, err := fetchOrigins(ctx, o.Client, o.Successor)
	if err != nil {
		return nil, err
	}
	if mirror.Log == uuid.Nil {
		return nil, fmt.Errorf("%w: the mirror must run the version of this service", ErrRefused)
	}
	f = &fence{
		promotion: uuid.New(), successor: o.Successor, log: uuid.NullUUID{UUID: mirror.Log, Valid: true},
	}
	if err := o.claim(f); err != nil {
		return nil, err
	}
	err = raiseFence(ctx, conn, *f, func(db database.Querier) error { return o.wantNoImports(ctx, db) })
	if err != nil {
		return nil, o.abort(ctx, conn, f, err) // a COMMIT that was interrupted may have succeeded
	}
	o.Report("Commands are refused from now on.")
	return f, nil
}

// readFence reads the fence; nil without one. A handover for which the memory is retired was complete, also if the
// database does not know this after a failover to an asynchronous standby.
func (o *Origin) readFence(ctx context.Context) (*fence, error) {
	f, err := readFence(ctx, o.Pool)
	if err != nil || f == nil || f.replaced {
		return f, err
	}
	r, retired, _ := ledger.ReadRetirement(o.Memory) // a memory that cannot be read says nothing
	f.complete = f.complete || retired && r.Promotion == f.promotion
	return f, nil
}

// resume continues the handover of an earlier call, which has left the fence f.
func (o *Origin) resume(ctx context.Context, f *fence) error {
	switch {
	case f.replaced:
		return fmt.Errorf("%w: %s", ErrReplaced, f.successor)
	case f.successor != o.Successor:
		return fmt.Errorf("%w: it is handing over to %s; continue with that, or undo it first", ErrRefused, f.successor)
	}
	if err := o.wantNotPromoted(ctx, f); err != nil {
		return err
	}
	if f.complete { // claim replaces a file with the token, which has the only keys if there is no key file
		if _, err := ledger.LoadKeys(o.KeyFile); err != nil {
			return fmt.Errorf("%w: run this where the key and the memory of the ledger are: %w", ErrRefused, err)
		}
	}
	if err := o.claim(f); err != nil {
		return err
	}
	o.Report("The handover to " + f.successor + " continues.")
	return nil
}

func (o *Origin) claim(f *fence) error {
	if o.Claim == nil {
		return nil
	}
	return o.Claim(f.promotion)
}

const openImportsSQL = `SELECT count(*) FROM imports WHERE state IN ('open', 'processing')`

// check fails with ErrRefused if the handover cannot succeed soon.
func (o *Origin) check(ctx context.Context) error {
	role, err := ReadRole(ctx, o.Pool)
	if err != nil {
		return err
	}
	if role.Mirrors != "" {
		return fmt.Errorf("%w: this database is a mirror of %s", ErrRefused, role.Mirrors)
	}
	id, err := o.identify(ctx)
	if err != nil {
		return err
	}
	if err := o.wantNoImports(ctx, o.Pool); err != nil {
		return err
	}
	theirs, err := o.successorCheckpoint(ctx)
	if err != nil {
		return err
	}
	if theirs.Origin != id.Origin {
		return fmt.Errorf("%w: %s serves the ledger %s, and this one is %s: it is not a mirror of this service", ErrRefused,
			o.Successor, theirs.Origin, id.Origin)
	}
	if err := o.wantMirror(ctx); err != nil {
		return err
	}
	store := ledger.NewStore(o.Pool)
	ours, err := store.Tree(ctx)
	if err != nil {
		return err
	}
	if behind := ours.N - theirs.Tree.N; behind > maxBehind {
		return fmt.Errorf("%w: the mirror is %d events behind; wait until it has caught up", ErrRefused, behind)
	}
	err = ledger.Extends(ours, theirs.Tree, store.Hashes(ctx, ours))
	if errors.Is(err, ledger.ErrForked) {
		err = fmt.Errorf("%w: the mirror has another history: %w", ErrRefused, err)
	}
	return err
}

// wantNoImports fails with ErrRefused if bulk imports have not ended, unless LeaveImports is set.
func (o *Origin) wantNoImports(ctx context.Context, db database.Querier) error {
	var open int
	if err := db.QueryRow(ctx, openImportsSQL).Scan(&open); err != nil {
		return fmt.Errorf("count bulk imports: %w", err)
	}
	if open > 0 && !o.LeaveImports {
		return fmt.Errorf("%w: %d bulk imports have not ended, and the successor does not have them: wait, or let their "+
			"partners send them there again with --leave-imports", ErrRefused, open)
	}
	return nil
}

// wantMirror fails with ErrRefused unless the successor answers commands as a mirror does: its URL may lead back to
// this service. It also fails if the mirror follows another service, or one on a standby: before its promotion the
// mirror asks there whether the handover was undone. The URL that the mirror follows need not be reachable from here.
func (o *Origin) wantMirror(ctx context.Context) error {
	theirs, err := ask(ctx, o.Client, o.Successor)
	if err != nil {
		return err
	}
	if !theirs.isMirror() {
		return notMirror(o.Successor, theirs)
	}
	own, err := logID(ctx, o.Pool)
	if err != nil {
		return err
	}
	followed, err := fetchOrigins(ctx, o.Client, theirs.origin)
	switch {
	case err == nil && followed.Log != own:
		return fmt.Errorf("%w: the mirror at %s follows %s, which is not this service: start it with the URL of this one",
			ErrRefused, o.Successor, theirs.origin)
	case err == nil && followed.Standby:
		return fmt.Errorf("%w: the mirror at %s follows %s, and would ask there whether the handover was undone: %w",
			ErrRefused, o.Successor, theirs.origin, errStandby)
	}
	return nil
}

func notMirror(url string, a answer) error {
	return fmt.Errorf("%w: %s does not answer as a mirror: it answers a command with %d %s", ErrRefused, url, a.status,
		http.StatusText(a.status))
}

// identify returns the identity that signs the ledger. It fails with ErrRefused if keys or memory are elsewhere.
func (o *Origin) identify(ctx context.Context) (*ledger.Identity, error) {
	id, err := ledger.Identify(ctx, o.Pool, ledger.IdentityConfig{KeyFile: o.KeyFile, Memory: o.Memory})
	if errors.Is(err, ledger.ErrOrigin) {
		return nil, fmt.Errorf("%w: the ledger has no origin yet, so there is nothing to hand over", ErrRefused)
	}
	if err != nil {
		return nil, err
	}
	if id.Reason != nil {
		return nil, fmt.Errorf("%w: run this where the key and the memory of the ledger are: %w", ErrRefused, id.Reason)
	}
	return id, nil
}

// successorCheckpoint returns the checkpoint that the successor serves.
func (o *Origin) successorCheckpoint(ctx context.Context) (ledger.Checkpoint, error) {
	signed, err := (&audit.Service{Client: o.Client, URL: o.Successor + "/ledger"}).Checkpoint(ctx)
	if err != nil {
		return ledger.Checkpoint{}, fmt.Errorf("read the ledger of the mirror: %w", err)
	}
	return ledger.ParseCheckpoint(signed)
}

// awaitSuccessor seals and signs all events, and waits until the successor serves the final checkpoint. It returns this
// checkpoint.
func (o *Origin) awaitSuccessor(ctx context.Context, f *fence) (ledger.Checkpoint, error) {
	if f.complete { // by an earlier call: the newest checkpoint is the final one
		sealed, err := ledger.ReadSealed(ctx, o.Pool)
		if err != nil {
			return ledger.Checkpoint{}, err
		}
		return ledger.NewStore(o.Pool).Newest(ctx, sealed.Origin())
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	last, err := o.sign(ctx)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	o.Report(fmt.Sprintf("All %d events are signed.", last.Tree.N))
	for {
		theirs, err := o.successorCheckpoint(ctx)
		if err == nil && (theirs.Tree != last.Tree || theirs.Origin != last.Origin) {
			err = errBehind
		}
		if err == nil {
			// The mirror may have been promoted without this handover.
			err = o.askSuccessor(ctx, f)
			if errors.Is(err, ErrReplaced) || errors.Is(err, errOtherMirror) {
				return ledger.Checkpoint{}, err
			}
		}
		if err == nil {
			o.Report(fmt.Sprintf("The mirror has all %d events.", last.Tree.N))
			return last, nil
		}
		if !eventlog.Sleep(ctx, poll) {
			return ledger.Checkpoint{}, waitError(ctx, "the mirror has %d of %d events after %v: %w", theirs.Tree.N,
				last.Tree.N, o.Wait, err)
		}
	}
}

// retire takes the memory out of use. It repeats the attempt while a replica holds the lock of the memory.
func (o *Origin) retire(ctx context.Context, last ledger.Checkpoint, f *fence) (ledger.Signing, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for {
		signing, err := ledger.Retire(o.KeyFile, o.Memory, last, ledger.Retirement{
			Promotion: f.promotion, Successor: f.successor,
		})
		if !errors.Is(err, ledger.ErrLocked) || !eventlog.Sleep(ctx, poll) {
			return signing, err
		}
	}
}
