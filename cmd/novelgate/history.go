package main

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"novelgate/commands"
	"novelgate/commands/admin"
	"novelgate/readapi/accesslog"
	"novelgate/readapi/audit"
)

// auditAPI serves the event history to auditors and staff.
func (s *service) auditAPI(c *ServeCommand, in *invocation) *audit.API {
	return &audit.API{
		DB: s.db.pools.History, Wake: s.wake, Logger: s.logger, Now: in.now, Timeout: c.RequestTimeout,
		Authenticate: func(ctx context.Context, h http.Header) (accesslog.Person, error) {
			person, err := admin.AuthenticatePerson(ctx, s.keys, h, "auditor or staff key", "auditors and staff")
			if err != nil {
				return accesslog.Person{}, err
			}
			return accesslog.Person{
				Role: person.Role, Name: person.Name,
				PersonID: uuid.NullUUID{UUID: person.PersonID, Valid: true}, KeyID: uuid.NullUUID{UUID: person.KeyID, Valid: true},
			}, nil
		},
		Refuse: commands.Refuse, RequestID: commands.RequestID, Draining: s.draining.Load,
	}
}
