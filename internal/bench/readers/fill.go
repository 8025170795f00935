package readers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Slug is that of the novel with the large discussion. Its pages of Tops top-level comments hold Posts comments.
const (
	Slug  = "a-big-discussion"
	Tops  = 10
	Posts = 50
)

//go:embed fill.sql
var fillSQL string

// Fill writes the discussion into the tables that readers read.
func Fill(ctx context.Context, databaseURL string, comments int) (err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, fillSQL, comments); err != nil {
		return fmt.Errorf("fill the discussion: %w", err)
	}
	return nil
}
