package reference

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// beginner is a pool or a connection.
type beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Read returns the rows that a table holds now, with all of its columns.
func Read(ctx context.Context, db beginner, table string) (Rows, error) {
	rows := Rows{}
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL timezone = 'UTC'; SET LOCAL bytea_output = 'hex'`); err != nil {
			return fmt.Errorf("set time zone: %w", err)
		}
		found, err := tx.Query(ctx, `SELECT row_to_json(t)::text FROM `+pgx.Identifier{table}.Sanitize()+` AS t`)
		if err != nil {
			return err
		}
		var row []byte
		_, err = pgx.ForEachRow(found, []any{&row}, func() error {
			text, err := canonical(row)
			rows = append(rows, text)
			return err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", table, err)
	}
	slices.Sort(rows)
	return rows, nil
}
