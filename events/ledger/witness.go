package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
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

// ErrOtherHistory means that a witness has cosigned checkpoints that the ledger does not extend.
var ErrOtherHistory = errors.New("the witness has cosigned another history")

// WitnessConfig describes a witness.
type WitnessConfig struct {
	// Pool must have one connection for the witness. Required.
	Pool *pgxpool.Pool
	// Origin is the origin of the checkpoints to cosign. Required.
	Origin string
	// URL is the submission prefix of the witness. Required.
	URL *url.URL
	// VerifierKey is its public key. Required.
	VerifierKey string
	// Quorum is the number of cosignatures that the served checkpoint should have. The newest checkpoint with them is
	// served until the one after it is ten seconds old; then the newest of all is. Required.
	Quorum int
	// Interval is the interval between checks for new checkpoints, and after the first failure. Default: 1 s.
	Interval time.Duration
	// Metrics report the size that the witness has cosigned, and count its failures. Default: new, unregistered ones.
	Metrics *Metrics
	// Logger gets errors. Default: slog.Default.
	Logger *slog.Logger
}

// Witness asks a witness to cosign the newest checkpoint (C2SP tlog-witness). The database stores its cosignatures. Old
// ones are deleted when they can no longer be served; the newest always stays.
type Witness struct {
	WitnessConfig

	client   *http.Client
	store    *Store
	verifier note.Verifier
}

const (
	// witnessTimeout limits one request.
	witnessTimeout = 5 * time.Second
	// witnessPause is the maximum interval between attempts. While a new checkpoint lacks the quorum, it is held back for
	// up to ten seconds: a witness that answers again must cosign it within this time.
	witnessPause = 4 * time.Second
	// maxAnswer is the number of bytes that are read of an answer.
	maxAnswer = 64 << 10
)

// NewWitness returns a Witness; start it with Run. It fails with ErrKey if the key is not that of a witness.
func NewWitness(config WitnessConfig) (*Witness, error) {
	verifier, err := NewWitnessVerifier(config.VerifierKey)
	if err != nil {
		return nil, err
	}
	config.Interval = cmp.Or(config.Interval, defaultInterval)
	config.Metrics = cmp.Or(config.Metrics, NewMetrics())
	config.Logger = cmp.Or(config.Logger, slog.Default())
	w := &Witness{WitnessConfig: config, store: NewStore(config.Pool), verifier: verifier, client: &http.Client{
		Timeout: witnessTimeout,
		// A redirect may turn the request into a GET without the checkpoint.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	config.Metrics.witnessSize.WithLabelValues(w.String())
	config.Metrics.witnessFailures.WithLabelValues(w.String())
	config.Metrics.witnessRefused.WithLabelValues(w.String())
	return w, nil
}

// String returns the address of the witness, without a password.
func (w *Witness) String() string { return w.URL.Redacted() }

// Run asks for cosignatures until ctx ends. It logs errors and tries again.
func (w *Witness) Run(ctx context.Context) {
	wait := w.Interval
	for {
		err := w.Ask(ctx)
		refused := errors.Is(err, ErrOtherHistory)
		logger := w.Logger.With(slog.String("witness", w.String()), slog.Any("error", err))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = w.Interval
		case refused:
			logger.ErrorContext(ctx,
				"A witness does not cosign the ledger any more: the database was set back, or is another one")
		default:
			logger.WarnContext(ctx, "A witness did not cosign; trying again")
		}
		// After another error, it is not known what the witness has cosigned.
		if refused || err == nil {
			w.Metrics.witnessRefused.WithLabelValues(w.String()).Set(database.BoolValue(refused))
		}
		eventlog.Sleep(ctx, wait)
		if err != nil {
			wait = min(2*wait, witnessPause)
		}
	}
}

// Ask asks for a cosignature of the newest checkpoint, unless it is on record. It fails with ErrOtherHistory if the
// witness has cosigned another history.
func (w *Witness) Ask(ctx context.Context) error {
	newest, cosigned, err := w.sizes(ctx, w.Origin)
	if err != nil || newest <= cosigned {
		return err
	}
	list, err := w.store.since(ctx, w.Origin, newest-1, 1)
	if err != nil || len(list) == 0 {
		return err
	}
	return w.Take(ctx, list[0])
}

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

// Take asks for a cosignature of a checkpoint and stores it, unless the witness has cosigned a newer one.
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
