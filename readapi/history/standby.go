package history

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// UseStandbys lets Page read full pages from standbys, each for at most patience. The last page comes from the primary,
// so the end of the log is as new as without standbys.
func (r *Reader) UseStandbys(standbys *database.Standbys, patience time.Duration) {
	r.standbys, r.patience = standbys, patience
}

// standbyPage reads a page below the primary's horizon from a standby, if it is full there. Three rules make it the
// page that the primary would give:
//
//   - It ends below the horizon of the standby too. There pg_snapshot_xmin counts the transactions that the replay of
//     the WAL has not ended: as on the primary, no event appears below it later.
//   - It ends below the horizon of the primary. A standby shows a commit before the primary, where it may still wait
//     for a synchronous standby.
//   - The primary has the last event of the page, and as many events up to it. This detects a standby of another
//     history, such as one that was ahead of the standby that was promoted.
func (r *Reader) standbyPage(ctx context.Context, after Cursor, horizon Horizon, limit int) (Page, bool) {
	// The events of one stream are few, and an index has them.
	if r.standbys == nil || r.filter.Stream.Valid || r.reachesEnd(after, horizon, limit) {
		return Page{}, false
	}
	standby, count, ok := r.standbys.History()
	if !ok {
		return Page{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	page, err := r.readStandby(ctx, standby, after, horizon, limit)
	ok = err == nil && page.More
	count(ok)
	return page, ok
}

func (r *Reader) readStandby(
	ctx context.Context, standby database.DB, after Cursor, horizon Horizon, limit int,
) (Page, error) {
	replayed, err := ReadHorizon(ctx, standby)
	if err != nil {
		return Page{}, err
	}
	replayed.xmin = min(replayed.xmin, horizon.xmin)
	page, err := r.page(ctx, standby, after, replayed, limit)
	if err != nil || !page.More {
		return page, err
	}
	var batch pgx.Batch
	page.Next.QueueCheck(&batch)
	return page, r.db.SendBatch(ctx, &batch).Close() // after an error the page comes from the primary
}

// reachesEnd reports whether a page surely reaches the horizon. Such a page must come from the primary.
func (r *Reader) reachesEnd(after Cursor, horizon Horizon, limit int) bool {
	if after.Compare(r.start.Position) < 0 {
		after = r.start
	}
	known := horizon.end.count > 0 && (after.count > 0 || after == Cursor{})
	return known && horizon.end.count-after.count <= int64(limit)
}
