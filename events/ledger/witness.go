package ledger

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// NewWitnessVerifier returns the verifier of the cosignatures of a witness (C2SP tlog-cosignature). It fails with
// ErrKey for text that is not the key of a witness, such as the key of a log.
func NewWitnessVerifier(verifierKey string) (note.Verifier, error) {
	verifier, err := cosignature.NewVerifierForCosignatureV1(verifierKey)
	if err != nil {
		return nil, fmt.Errorf("%w of a witness: %q", ErrKey, verifierKey)
	}
	// The library does not compare the hash, so it accepts a key of a log, which has another hash.
	if hash := strings.SplitN(verifierKey, "+", 3)[1]; hash != fmt.Sprintf("%08x", verifier.KeyHash()) {
		return nil, fmt.Errorf("%w of a witness: %q has the hash of another key", ErrKey, verifierKey)
	}
	return verifier, nil
}

// WitnessConfig describes a witness.
type WitnessConfig struct {
	// Pool must have one connection for the witness. Required.
	Pool *pgxpool.Pool
	// URL is the submission prefix of the witness. Required.
	URL *url.URL
	// VerifierKey is its public key. Required.
	VerifierKey string
	// Quorum is the number of cosignatures that the served checkpoint should have. The newest checkpoint with them is
	// served until the one after it is ten seconds old; then the newest of all is. Required.
	Quorum int
	// Metrics report the size that the witness has cosigned, and count its failures. Default: new, unregistered ones.
	Metrics *Metrics
}

// Witness is a Target that cosigns the newest checkpoint (C2SP tlog-witness). The database stores its cosignatures.
// Old ones are deleted when they can no longer be served; the newest always stays.
type Witness struct {
	WitnessConfig

	client   *http.Client
	store    *Store
	verifier note.Verifier
}

// witnessTimeout limits one request.
const witnessTimeout = 5 * time.Second

// NewWitness returns a target for a witness. It fails with ErrKey if the key is not that of a witness.
func NewWitness(config WitnessConfig) (*Witness, error) {
	verifier, err := NewWitnessVerifier(config.VerifierKey)
	if err != nil {
		return nil, err
	}
	if config.Metrics == nil {
		config.Metrics = NewMetrics()
	}
	w := &Witness{
		WitnessConfig: config, client: newClient(witnessTimeout), store: NewStore(config.Pool), verifier: verifier,
	}
	config.Metrics.witnessSize.WithLabelValues(w.String())
	config.Metrics.witnessFailures.WithLabelValues(w.String())
	return w, nil
}

// String implements Target.
func (w *Witness) String() string { return w.URL.Redacted() }

// cosignedSQL finds the sizes of the newest checkpoint of an origin and of the newest one that a witness has cosigned.
// $1: origin, $2: key of the witness.
const cosignedSQL = `SELECT coalesce((SELECT max(tree_size) FROM ledger_checkpoints WHERE origin = $1), -1),
       coalesce((SELECT max(tree_size) FROM ledger_cosignatures WHERE origin = $1 AND witness = $2), -1)`

// sizes returns the sizes of the newest and of the newest cosigned checkpoint, -1 for none, and sets the metric.
func (w *Witness) sizes(ctx context.Context, origin string) (newest, cosigned int64, err error) {
	if err = w.Pool.QueryRow(ctx, cosignedSQL, origin, w.VerifierKey).Scan(&newest, &cosigned); err != nil {
		return 0, 0, fmt.Errorf("read what was cosigned: %w", err)
	}
	w.Metrics.witnessSize.WithLabelValues(w.String()).Set(float64(max(cosigned, 0)))
	return newest, cosigned, nil
}

// Last implements Target. A witness gets only the newest checkpoint: earlier ones count as taken.
func (w *Witness) Last(ctx context.Context, origin string) (int64, error) {
	newest, cosigned, err := w.sizes(ctx, origin)
	return max(newest-1, cosigned), err
}

// Take implements Target. It fails with ErrOtherHistory if the witness has cosigned another history.
func (w *Witness) Take(ctx context.Context, c Checkpoint) error {
	lines, err := w.cosign(ctx, c)
	if err == nil && lines != "" {
		err = w.saveCosignature(ctx, c, lines)
	}
	if err == nil {
		err = w.prune(ctx)
	}
	if err != nil {
		w.Metrics.witnessFailures.WithLabelValues(w.String()).Inc()
	}
	return err
}

var errWitness = errors.New("the witness did not cosign")

// cosign requests the cosignature lines of a checkpoint. "" without an error: the witness has cosigned a newer one.
func (w *Witness) cosign(ctx context.Context, c Checkpoint) (lines string, err error) {
	_, old, err := w.sizes(ctx, c.Origin)
	if err != nil || old > c.Tree.N { // another replica was faster
		return "", err
	}
	old = max(old, 0)
	// A witness at another size answers 409 with that size: ask again from there. It can change again, because other
	// replicas ask too.
	const attempts = 3
	for range attempts {
		status, answer, err := w.addCheckpoint(ctx, c, old)
		if err != nil {
			return "", err
		}
		switch status {
		case http.StatusOK:
			return w.verify(c, answer)
		case http.StatusConflict:
			if old, err = w.sizeInConflict(ctx, c, old, answer); err != nil || old > c.Tree.N {
				return "", err
			}
		case http.StatusUnprocessableEntity:
			return "", fmt.Errorf("%w: the witness finds that the %d entries do not extend the %d that it has cosigned",
				ErrOtherHistory, c.Tree.N, old)
		default:
			return "", fmt.Errorf("%w: %d", errWitness, status)
		}
	}
	return "", fmt.Errorf("%w: its size changes with every answer", errWitness)
}

// sizeInConflict returns the size that the witness has cosigned, from its answer 409 to a request with the size old. It
// fails with ErrOtherHistory if the witness has cosigned another history: another root of the same size, or more
// entries than the ledger has signed (each checkpoint is stored before any witness gets it). A 409 for another root
// need not carry a size.
func (w *Witness) sizeInConflict(
	ctx context.Context, c Checkpoint, old int64, answer []byte,
) (size int64, err error) {
	size, err = strconv.ParseInt(strings.TrimSuffix(string(answer), "\n"), 10, 64)
	switch {
	case old == c.Tree.N && (err != nil || size == old):
		return 0, fmt.Errorf("%w: the witness has cosigned another root of %d entries", ErrOtherHistory, old)
	case err != nil || size < 0:
		return 0, fmt.Errorf("%w: 409 without its size", errWitness)
	case size <= c.Tree.N:
		return size, nil
	}
	newest, _, err := w.sizes(ctx, c.Origin)
	if err == nil && newest < size {
		err = fmt.Errorf("%w: the witness has cosigned %d entries, and the ledger has signed %d", ErrOtherHistory,
			size, newest)
	}
	return size, err
}

// addCheckpoint requests add-checkpoint: it sends a checkpoint with the proof that it extends the tree of the old size.
func (w *Witness) addCheckpoint(ctx context.Context, c Checkpoint, old int64) (status int, answer []byte, err error) {
	var proof tlog.TreeProof
	if old > 0 {
		if proof, err = tlog.ProveTree(c.Tree.N, old, w.store.Hashes(ctx, c.Tree)); err != nil {
			return 0, nil, fmt.Errorf("prove growth from %d to %d entries: %w", old, c.Tree.N, err)
		}
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", old)
	for _, hash := range proof {
		body.WriteString(base64.StdEncoding.EncodeToString(hash[:]) + "\n")
	}
	body.WriteString("\n")
	body.Write(c.Note)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL.JoinPath("add-checkpoint").String(), &body)
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	response, err := w.client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("send: %w", err)
	}
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return 0, nil, fmt.Errorf("read answer: %w", err)
	}
	return response.StatusCode, answer, nil
}

// verify returns the lines of an answer that are cosignatures of the witness on the checkpoint, without those of other
// keys.
func (w *Witness) verify(c Checkpoint, answer []byte) (lines string, err error) {
	opened, err := note.Open(append(bytes.Clone(c.Note), answer...), note.VerifierList(w.verifier))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errWitness, err)
	}
	// note.Open splits at the last empty line, so an empty line in the answer would move the end of the text.
	if opened.Text != c.Body() {
		return "", fmt.Errorf("%w: the answer is not lines of signatures", errWitness)
	}
	for _, sig := range opened.Sigs {
		lines += "— " + sig.Name + " " + sig.Base64 + "\n"
	}
	return lines, nil
}

// saveCosignatureSQL stores a cosignature unless another replica was faster. $1: origin, $2: size, $3: key of the
// witness, $4: lines, $5: quorum.
const saveCosignatureSQL = `INSERT INTO ledger_cosignatures (origin, tree_size, witness, signature, quorum, cosigned_at)
VALUES ($1, $2, $3, $4, $5, statement_timestamp())
ON CONFLICT (origin, tree_size, witness) DO NOTHING`

func (w *Witness) saveCosignature(ctx context.Context, c Checkpoint, lines string) error {
	_, err := w.Pool.Exec(ctx, saveCosignatureSQL, c.Origin, c.Tree.N, w.VerifierKey, lines, w.Quorum)
	if err != nil {
		return fmt.Errorf("store cosignature: %w", err)
	}
	_, _, err = w.sizes(ctx, c.Origin) // sets the metric
	return err
}

// pruneSQL deletes cosignatures that are not needed any more: at most 1,000 of each origin, because a long transaction
// delays all readers of the log. Another replica may delete others at the same time.
const pruneSQL = `DELETE FROM ledger_cosignatures AS c USING (
    SELECT old.* FROM ledger_origins AS o CROSS JOIN LATERAL (
        SELECT origin, tree_size, witness FROM ledger_cosignatures
        WHERE origin = o.origin AND NOT ledger_cosignature_is_needed(origin, tree_size, witness)
        ORDER BY tree_size LIMIT 1000 FOR UPDATE SKIP LOCKED) AS old
) AS old
WHERE (c.origin, c.tree_size, c.witness) = (old.origin, old.tree_size, old.witness)`

func (w *Witness) prune(ctx context.Context) error {
	if _, err := w.Pool.Exec(ctx, pruneSQL); err != nil {
		return fmt.Errorf("delete old cosignatures: %w", err)
	}
	return nil
}
