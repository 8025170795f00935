package eventlog

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// WatermillLogger passes Watermill's log on. What it calls information is of interest when debugging, and so are the
// errors that closing a subscription in the middle of a poll leads to.
func WatermillLogger(logger *slog.Logger) watermill.LoggerAdapter {
	return watermillLogger{watermill.NewSlogLoggerWithLevelMapping(logger, map[slog.Level]slog.Level{
		slog.LevelInfo:  slog.LevelDebug,
		slog.LevelDebug: watermill.LevelTrace,
	})}
}

type watermillLogger struct{ watermill.LoggerAdapter }

// Error implements watermill.LoggerAdapter.
func (l watermillLogger) Error(msg string, err error, fields watermill.LogFields) {
	queryErr, _ := fields["query_err"].(error) // why a transaction is rolled back that now cannot be
	if errors.Is(err, context.Canceled) || errors.Is(queryErr, context.Canceled) {
		l.Info(msg, fields.Add(watermill.LogFields{"error": err}))
		return
	}
	l.LoggerAdapter.Error(msg, err, fields)
}

// With implements watermill.LoggerAdapter.
func (l watermillLogger) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return watermillLogger{l.LoggerAdapter.With(fields)}
}
