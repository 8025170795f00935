package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events/ledger"
)

var errNoHandover = fmt.Errorf("%w: this database has not handed over", ErrRefused)

// Undo lets the database append again. If the handover is complete, Undo needs its token, which must not be used
// afterwards. If the database was replaced, Undo needs IgnorePromotion, and the promoted service must be off. Undo
// fails with ErrRefused while HandOver is under way. With the token, it can be repeated.
func (o *Origin) Undo(ctx context.Context, token *Token) error {
	return withLock(ctx, o.Pool, func(conn *pgx.Conn) error { return o.undo(ctx, conn, token) })
}

func (o *Origin) undo(ctx context.Context, conn *pgx.Conn, token *Token) error {
	f, err := o.readFence(ctx)
	switch {
	case err != nil:
		return err
	case f == nil && token != nil:
		return o.wantUndone(ctx, token)
	case f == nil:
		return errNoHandover
	case f.replaced && !o.IgnorePromotion:
		return fmt.Errorf("%w: %s. If it was promoted by mistake and is off for good, --ignore-promotion lifts the fence",
			ErrReplaced, f.successor)
	case o.IgnorePromotion && !f.replaced:
		return fmt.Errorf("%w: this database has handed over to %s, and was not replaced: undo it without "+
			"--ignore-promotion", ErrRefused, f.successor)
	case f.complete && token == nil:
		return fmt.Errorf("%w: the handover to %s is complete, so only the file that it wrote can undo it", ErrRefused,
			f.successor)
	case token != nil && token.Promotion != f.promotion:
		return fmt.Errorf("%w: the file is of another handover", ErrRefused)
	}
	if f.replaced {
		if err := o.wantOff(ctx, f); err != nil {
			return err
		}
	} else if token != nil {
		f.complete = true // see readFence
	}
	return o.reopen(ctx, conn, f, token)
}

// wantUndone fails with ErrRefused unless the handover of a token was undone: the memory that was retired signs the
// ledger of this database again.
func (o *Origin) wantUndone(ctx context.Context, token *Token) error {
	id, err := o.identify(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoHandover, err)
	}
	var memory uuid.UUID
	if err := o.Pool.QueryRow(ctx, memorySQL, id.Origin).Scan(&memory); err != nil {
		return fmt.Errorf("read the memory of %s: %w", id.Origin, err)
	}
	if memory != token.Memory {
		return fmt.Errorf("%w: the file is of another ledger", errNoHandover)
	}
	if done, err := find(ctx, o.Pool, token.Promotion); err != nil || done != nil {
		return cmp.Or(err, fmt.Errorf("%w: a mirror was promoted with the file", errNoHandover))
	}
	o.Report("The handover was undone before.")
	return nil
}

// memorySQL returns the memory that signs for an origin, which is here if identify succeeds. $1: origin.
const memorySQL = `SELECT memory FROM ledger_memories WHERE origin = $1`

// wantOff fails with ErrReplaced if the service that replaced this one still answers. Unless Force is set, it fails
// with ErrRefused if that service may still run: only a machine that refuses connections says that it is off.
func (o *Origin) wantOff(ctx context.Context, f *fence) error {
	found, err := FindSuccessor(ctx, o.Pool, o.Client, f.successor)
	switch {
	case found != nil:
		return fmt.Errorf("%w: %s answers that it was promoted", ErrReplaced, f.successor)
	case o.Force, err != nil && refusesConnections(ctx, f.successor):
		return nil
	case f.successor == "":
		err = errors.New("its address is not known")
	case err == nil:
		err = errors.New("another service answers at its address")
	}
	return fmt.Errorf("%w: the promoted service %s may still run. --force assumes that it is off for good: %w", ErrRefused,
		f.successor, err)
}

// refusesConnections reports whether the host of a URL refuses connections at all of its addresses. The client of the
// Origin does not tell, because it may use a proxy, follow redirects, and stop at one address.
func refusesConnections(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	hosts, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		return false
	}
	for _, host := range hosts {
		dialer := net.Dialer{Timeout: askTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
		if err == nil {
			_ = conn.Close() // nothing was sent
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
	}
	return len(hosts) > 0
}

// askTimeout limits the last question to the successor before the fence is lifted. It is short, because the answer must
// still be true when the fence is lifted.
const askTimeout = 2 * time.Second

// reopen lifts the fence. It fails if the successor was promoted, and asks the successor just before: see
// wantNotPromoted. If the handover was complete, reopen needs its token, and also reinstates the memory and, if there
// is no key file, the keys.
func (o *Origin) reopen(ctx context.Context, conn *pgx.Conn, f *fence, token *Token) error {
	err := liftFence(ctx, conn, f, func() error {
		asking, cancel := context.WithTimeout(ctx, cmp.Or(o.askTimeout, askTimeout))
		defer cancel()
		return o.wantNotPromoted(asking, f)
	}, func() error {
		if !f.complete {
			return nil
		}
		err := token.signing().Reinstate(o.KeyFile, o.Memory, f.promotion)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ledger.ErrMemory) {
			err = fmt.Errorf("%w: run this where the memory of the ledger is: %w", ErrRefused, err)
		}
		return err
	})
	if err != nil && conn.IsClosed() {
		err = o.lifted(context.WithoutCancel(ctx), err)
	}
	if err == nil && f.replaced {
		o.Report(fmt.Sprintf("The promotion %s of %q is ignored from now on.", f.promotion, f.successor))
		if _, retired, _ := ledger.ReadRetirement(o.Memory); retired {
			o.Report("The memory of the ledger was handed over: nothing is signed here before a new origin is started.")
		}
	}
	return err
}

// lifted returns nil if the fence is lifted although liftFence failed, because the answer to its COMMIT was lost. It
// waits until that COMMIT has ended.
func (o *Origin) lifted(ctx context.Context, failed error) error {
	var left *fence
	err := o.withNewLock(ctx, func(conn *pgx.Conn) (err error) { left, err = readFence(ctx, conn); return err })
	switch {
	case err != nil:
		return fmt.Errorf("%w; commands may be accepted again: run this again: %w", failed, err)
	case left != nil:
		return failed
	}
	return nil
}

// wantNotPromoted fails with ErrReplaced if the successor was promoted, by this handover or without it, and with
// errPromoting while it is being promoted. If the successor does not say, and the handover is complete or the successor
// accepts commands, wantNotPromoted fails with ErrRefused, unless Force is set.
func (o *Origin) wantNotPromoted(ctx context.Context, f *fence) error {
	err := o.askSuccessor(ctx, f)
	switch {
	case errors.Is(err, ErrReplaced), errors.Is(err, errPromoting):
		return err
	case err == nil, !f.complete && !errors.Is(err, errAccepts): // HandOver asks again at its end
		return nil
	case !o.Force && !f.complete:
		return fmt.Errorf("%w: run this again. --force assumes that it was not promoted: %w", ErrRefused, err)
	case !o.Force:
		return fmt.Errorf("%w: the handover is complete, and the mirror does not say whether it was promoted. --force "+
			"assumes that it was not, and will not be: otherwise two services accept commands, and sign two histories under "+
			"one key: %w", ErrRefused, err)
	}
	o.Report("The mirror cannot be asked: " + err.Error())
	return nil
}

// askSuccessor fails with ErrReplaced if the successor was promoted, and with errPromoting while it is being promoted.
// If the successor was promoted and the handover is incomplete, askSuccessor marks the database as replaced. It also
// fails if another mirror answers, or a standby, which cannot know whether the successor was promoted.
func (o *Origin) askSuccessor(ctx context.Context, f *fence) error {
	theirs, err := ask(ctx, o.Client, f.successor)
	var p *Promotion
	if err == nil {
		p, err = theirs.successor(ctx, o.Pool, o.Client, f.successor)
	}
	switch {
	case err != nil && theirs.accepts():
		return fmt.Errorf("%w: %w", errAccepts, err)
	case err != nil:
		return err
	case p == nil && f.log.Valid && f.log.UUID != theirs.Log:
		return errOtherMirror
	case p == nil && !theirs.isMirror():
		return notMirror(f.successor, theirs)
	case p == nil && theirs.Changing:
		return errPromoting
	case p == nil:
		return nil
	}
	err = fmt.Errorf("%w: %s answers that it was promoted", ErrReplaced, f.successor)
	if f.complete {
		return err
	}
	_, failed := o.Pool.Exec(context.WithoutCancel(ctx), replacedSQL, f.promotion, p.ID)
	return errors.Join(err, failed)
}

// replacedSQL marks a database as replaced. $1: id of the promotion of the handover, $2: id of the one that took place.
const replacedSQL = `UPDATE handover SET replaced = true, promotion_id = $2 WHERE promotion_id = $1`
