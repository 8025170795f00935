package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
	"novelgate/internal/names"
	"novelgate/internal/title"
	"novelgate/internal/web"
)

// Named are the filters that name something as people do.
type Named struct {
	Integration string // id or name
	Novel       string // id or title
	Actor       string // as events have it, such as staff:ada, or the name of staff or of an integration
	Day         string // such as 2026-11-28, in UTC
}

// UnknownError refuses a value of a parameter.
type UnknownError struct{ Parameter, Message string }

func (e *UnknownError) Error() string { return e.Message }

const (
	integrationSQL = `SELECT integration_id FROM integrations WHERE folded_name = $1`
	novelSQL       = `SELECT novel_id FROM title_lookup WHERE folded_title = $1`
)

// Resolve sets the fields of a filter that n names. It fails with an UnknownError.
func (n Named) Resolve(ctx context.Context, db database.Querier, f *Filter) (err error) {
	if f.Integration, err = n.id(ctx, db, "integration", n.Integration, integrationSQL); err != nil {
		return err
	}
	if f.Novel, err = n.id(ctx, db, "novel", n.Novel, novelSQL); err != nil {
		return err
	}
	switch name, isIntegration := strings.CutPrefix(n.Actor, "integration:"); {
	case isIntegration:
		if f.ActorID, err = n.id(ctx, db, "actor", name, integrationSQL); err != nil {
			return err
		}
	case n.Actor == "", strings.HasPrefix(n.Actor, staffPrefix+"cli:"):
		f.Actor = n.Actor
	default: // both, if staff and an integration have the name
		if f.Actor, err = staffActor(ctx, db, n.Actor); err != nil {
			return err
		}
		var none *UnknownError
		f.ActorID, err = n.id(ctx, db, "actor", n.Actor, integrationSQL)
		switch {
		case err != nil && !errors.As(err, &none):
			return err
		case err != nil && f.Actor == "":
			return &UnknownError{"actor", fmt.Sprintf("no staff and no integration has the name %q; who works on the database "+
				"without a key is staff:cli:USER", n.Actor)}
		}
	}
	if n.Day == "" {
		return nil
	}
	day, err := time.Parse(time.DateOnly, n.Day)
	if err != nil || f.From != nil || f.To != nil {
		return &UnknownError{"day", "must be a day such as 2026-01-31, without from and to"}
	}
	f.From, f.To = &day, new(day.AddDate(0, 0, 1))
	return nil
}

const staffPrefix = "staff:"

// staffActor returns the actor that staff with a name are in events, in the spelling of their key; "" for none. A name
// that differs only in case matches if no other does.
func staffActor(ctx context.Context, db database.Querier, name string) (actor string, err error) {
	name = strings.TrimPrefix(name, staffPrefix)
	known, err := database.Collect(ctx, db, "names of staff", pgx.RowTo[string],
		`SELECT DISTINCT name FROM person_keys WHERE role = 'staff'`)
	for _, one := range known {
		if one == name || actor == "" && title.Fold(one) == title.Fold(name) {
			actor = staffPrefix + one
		}
	}
	return actor, err
}

// id returns the id that a parameter is or names. sql finds it by its folded name.
func (Named) id(
	ctx context.Context, db database.Querier, parameter, value, sql string,
) (found uuid.NullUUID, err error) {
	if value == "" {
		return found, nil
	}
	if id, ok := web.ParseID(value); ok {
		return uuid.NullUUID{UUID: id, Valid: true}, nil
	}
	err = db.QueryRow(ctx, sql, title.Fold(value)).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, &UnknownError{parameter, fmt.Sprintf("nothing has the id or the name %q", value)}
	}
	if err != nil {
		return found, fmt.Errorf("find %s: %w", parameter, err)
	}
	return found, nil
}

// Names returns the names and titles of what events are about, and of the integrations that caused them, by id.
func Names(ctx context.Context, db database.Querier, list []Event) (map[uuid.UUID]string, error) {
	seen := map[uuid.UUID]struct{}{uuid.Nil: {}}
	var ids []uuid.UUID
	for i := range list {
		for _, id := range []uuid.UUID{
			list[i].StreamID, names.Integration(list[i].Metadata.Actor), AuthorsIntegration(list[i].Data),
		} {
			if _, ok := seen[id]; !ok {
				seen[id] = struct{}{}
				ids = append(ids, id)
			}
		}
	}
	return names.Of(ctx, db, ids...)
}

// AuthorsIntegration returns the integration that the data of an event names, such as that of an author; uuid.Nil for
// none.
func AuthorsIntegration(data []byte) uuid.UUID {
	var named struct {
		IntegrationID uuid.UUID `json:"integrationId"`
	}
	if json.Unmarshal(data, &named) != nil {
		return uuid.Nil
	}
	return named.IntegrationID
}
