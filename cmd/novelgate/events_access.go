package main

import (
	"fmt"
	"math"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/readapi/accesslog"
)

// EventsAccessLog is `novelgate events access-log`.
type EventsAccessLog struct {
	DatabaseFlags
	OutputFlags
	RowsFlag
}

// Run prints who read the history.
func (c *EventsAccessLog) Run(in *invocation) error {
	return c.withHistory(in, "access-log", map[string]string{"limit": fmt.Sprint(c.Limit)},
		func(pool *pgxpool.Pool) (int64, error) {
			list, err := (&accesslog.Log{DB: pool}).List(in.ctx, math.MaxInt64, c.Limit.sought())
			if err != nil {
				return 0, err
			}
			list = shown(in, list, c.Limit)
			return int64(len(list)), c.print(in, list, func() {
				rows := make([][]any, len(list))
				for i, e := range list {
					count := "-"
					if e.RowsReturned != nil {
						count = fmt.Sprint(*e.RowsReturned)
					}
					rows[i] = []any{moment(&e.BeganAt), e.Role, e.Name, e.Route, string(e.Parameters), count, e.RequestID}
				}
				in.table([]any{"BEGAN", "ROLE", "NAME", "READ", "PARAMETERS", "ROWS", "REQUEST"}, rows)
			})
		})
}
