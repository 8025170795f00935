package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/integration"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/apikey"
	"novelgate/internal/httpkit"
)

// maxLifetime is the longest lifetime of a key, in seconds: a hundred years.
const maxLifetime = 100 * 365 * 24 * 60 * 60

// issuing is the body of POST on the keys of an integration.
type issuing struct {
	ExpiresInSeconds int64 `json:"expiresInSeconds"` // 0: never
}

func (*issuing) members() []string { return []string{"expiresInSeconds"} }

func (i *issuing) read(o *httpkit.Object) { i.ExpiresInSeconds = lifetime(o, "expiresInSeconds") }

// lifetime reads a number of seconds.
func lifetime(o *httpkit.Object, name string) int64 {
	seconds, ok := o.Integer(name)
	if ok && (seconds < 0 || seconds > maxLifetime) {
		o.Fail(name, "must lie between 0 and %d", maxLifetime)
	}
	return seconds
}

// issuedKey is the response to it. apiKey is null for a retry.
type issuedKey struct {
	KeyID     uuid.UUID  `json:"keyId"`
	APIKey    *string    `json:"apiKey"`
	Prefix    string     `json:"prefix"`
	ExpiresAt *time.Time `json:"expiresAt"`

	mismatch bool // the key was used before for a different command
}

// again reports whether the request is a retry.
func (k issuedKey) again() bool { return k.APIKey == nil }

func issueKey(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("integrationId")
	if err != nil {
		return nil, err
	}
	if err := c.deliver("integrations/" + id.String() + "/keys"); err != nil {
		return nil, err
	}
	var body issuing
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	issued, secret, err := c.staff.IssueKey(ctx, id, time.Duration(body.ExpiresInSeconds)*time.Second)
	return keyOutput(issued, secret, err)
}

// rotation is the body of POST on the rotation of a key.
type rotation struct {
	OverlapSeconds int64 `json:"overlapSeconds"` // the old key stays valid for this time
}

func (*rotation) members() []string { return []string{"overlapSeconds"} }

func (r *rotation) read(o *httpkit.Object) { r.OverlapSeconds = lifetime(o, "overlapSeconds") }

func rotateKey(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("keyId")
	if err != nil {
		return nil, err
	}
	if err := c.deliver("keys/" + id.String() + "/rotate"); err != nil {
		return nil, err
	}
	var body rotation
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	issued, secret, err := c.staff.RotateKey(ctx, id, time.Duration(body.OverlapSeconds)*time.Second)
	return keyOutput(issued, secret, err)
}

// keyOutput returns the response for a new key, or for a retry.
func keyOutput(issued staff.Key, secret apikey.Secret, err error) (*output, error) {
	key, err := shownOnce(issued, secret, err)
	if err != nil {
		return nil, err
	}
	out := &output{status: http.StatusCreated, body: key, replayed: key.again(), mismatch: key.mismatch}
	if out.replayed {
		out.status = http.StatusOK
	}
	return out, nil
}

// shownOnce returns a new key with its secret. For a retry it returns the recorded key without the secret.
func shownOnce(issued staff.Key, secret apikey.Secret, err error) (issuedKey, error) {
	var replayed *staff.ReplayedError
	if errors.As(err, &replayed) {
		before, ok := replayed.Event.(events.KeyIssued)
		if !ok {
			return issuedKey{}, fmt.Errorf("a key is recorded as %s", replayed.Event.Type())
		}
		return issuedKey{
			KeyID: before.KeyID, Prefix: before.Prefix, ExpiresAt: before.ExpiresAt, mismatch: replayed.Mismatch,
		}, nil
	}
	if err != nil {
		return issuedKey{}, err
	}
	revealed := secret.Reveal()
	return issuedKey{KeyID: issued.ID, APIKey: &revealed, Prefix: issued.Prefix, ExpiresAt: issued.ExpiresAt}, nil
}

func listKeys(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("integrationId")
	if err != nil {
		return nil, err
	}
	limit, after := c.limit(), c.placeCursor(keyList(id))
	if err := c.query.Err(); err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	if _, err := c.staff.Integration(ctx, id.String()); err != nil {
		return nil, err
	}
	keys, err := c.staff.ListKeys(ctx, id, after, limit+1)
	if err != nil {
		return nil, err
	}
	return paginate(keyList(id), keys, limit, byPlace)
}

// revokeKey revokes a key. It is idempotent.
func revokeKey(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("keyId")
	if err != nil {
		return nil, err
	}
	_, err = c.staff.RevokeKey(ctx, id, c.query.Text("reason"))
	if errors.Is(err, integration.ErrKeyRevoked) {
		err = nil
	}
	return &output{}, err
}
