package admin

import (
	"context"
	"errors"
	"net/http"

	"novelgate/commands/access"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// AuthenticatePerson reads the key of a request. A partner's key is a valid one, but not for this. key names what is
// asked for, and audience those who have it. The error is a *problem.Error, unless it could not be found out whose key
// this is.
func AuthenticatePerson(
	ctx context.Context, keys Authenticator, h http.Header, key, audience string,
) (*access.Person, error) {
	secret, err := httpkit.Bearer(h, key)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := keys.AuthenticatePerson(ctx, secret)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, access.ErrMalformed):
		if _, err := keys.Authenticate(ctx, secret); err == nil {
			return nil, problem.Forbidden("This key belongs to an integration. This operation is for " + audience + ".")
		}
		return nil, problem.Unauthorized("The " + key + " is not valid.")
	case errors.Is(err, access.ErrUnknown):
		return nil, problem.Unauthorized("The " + key + " is not valid.")
	case errors.Is(err, access.ErrExpired):
		return nil, problem.Unauthorized("The " + key + " has expired.")
	default:
		return nil, err
	}
}
