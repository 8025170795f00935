package handover

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/events/ledger"
	"novelgate/internal/database"
)

const formatName = "novelgate/handover/v1"

// Token is a handover as a file. It has the private keys of the ledger: whoever has it can continue the log.
type Token struct {
	Format     string      `json:"format"`
	Promotion  uuid.UUID   `json:"promotion"`
	Successor  string      `json:"successor"`  // public URL of the mirror for which the token was made
	Log        uuid.UUID   `json:"log"`        // id of that mirror's log: no other mirror can be promoted with the token
	Checkpoint string      `json:"checkpoint"` // the final one
	Keys       string      `json:"keys"`       // content of the key file
	Memory     uuid.UUID   `json:"memory"`
	Promotions []Promotion `json:"promotions"` // earlier ones
	Erased     int64       `json:"erased"`     // events whose personal part is erased

	Webhooks jsontext.Value `json:"webhooks"` // of partners, see readWebhooks
}

// ErrToken is returned for text that is not a Token.
var ErrToken = errors.New("not a file of `novelgate handover`")

// Write writes the token as JSON.
func (t *Token) Write(w io.Writer) error {
	if err := json.MarshalWrite(w, t, jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("write the handover: %w", err)
	}
	return nil
}

// ReadToken reads and checks a token of any size. Errors do not quote its text, which has private keys.
func ReadToken(r io.Reader) (*Token, error) {
	var t Token
	err := json.UnmarshalRead(r, &t, json.RejectUnknownMembers(true))
	if err != nil || t.Format != formatName {
		return nil, ErrToken
	}
	if _, err := t.signing().Verify(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return &t, nil
}

func (t *Token) signing() *ledger.Signing {
	return &ledger.Signing{Keys: t.Keys, Memory: t.Memory, Last: []byte(t.Checkpoint)}
}

// countErased counts the events whose personal part is erased. It uses an index: 10,000 of a million take 2 ms.
func countErased(ctx context.Context, db database.Querier) (n int64, err error) {
	const sql = `SELECT count(*) FROM events WHERE personal_digest IS NOT NULL`
	if err := db.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0, fmt.Errorf("count erased events: %w", err)
	}
	return n, nil
}
