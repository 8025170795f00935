package admin

import (
	"context"
	"errors"
	"net/http"

	"novelgate/commands/access"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// AuthenticateStaffUser authenticates the staff user of a request. It answers 403 to the key of an integration. key and
// audience name the expected key and its owners in error texts. The error is a *problem.Error, except when the look-up
// of the key failed.
func AuthenticateStaffUser(
	ctx context.Context, keys Authenticator, h http.Header, key, audience string,
) (*access.StaffUser, error) {
	secret, err := httpkit.Bearer(h, key)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := keys.AuthenticateStaffUser(ctx, secret)
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
