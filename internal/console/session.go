package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

const (
	// cookieName has the prefix with which browsers take a cookie only from its own host, over https, for all paths.
	cookieName = "__Host-novelgate"
	// sessionTime is how long a person stays signed in.
	sessionTime = 12 * time.Hour
	signInPath  = "/console/sign-in"
)

// session is a person who has signed in.
type session struct {
	hash   []byte // of the token in the cookie
	user   auth.StaffUser
	notice notice
	undo   *undo
}

// notice is the outcome of an action, which the next page shows.
type notice struct {
	Text   string `json:"text"`
	Failed bool   `json:"failed"`
}

// undo is how to take the latest decision back.
type undo struct {
	ID       uuid.UUID         `json:"id"`                // of the form, so that a page undoes only what it shows
	Label    string            `json:"label"`             // what Undo does, such as "Restore 3 comments"
	Decision string            `json:"decision,omitzero"` // of Posts, such as staff.Hide, or of Novels, such as reject
	Posts    []uuid.UUID       `json:"posts,omitzero"`
	Novels   []uuid.UUID       `json:"novels,omitzero"`
	Author   *staff.AuthorName `json:"author,omitzero"`
	OnAuthor string            `json:"onAuthor,omitzero"` // decision about Author, such as unblock
	// Of an integration: the change of its settings or, without one, of a webhook.
	Integration uuid.UUID         `json:"integration,omitzero"`
	Change      *principal.Change `json:"change,omitzero"`
	Webhook     uuid.UUID         `json:"webhook,omitzero"`
	Enable      bool              `json:"enable,omitzero"` // the webhook

	To string `json:"to,omitzero"` // path below /console of a decision that can only be taken again
}

// sessions keeps the sessions in the database, so that they hold in all replicas and end with their key.
type sessions struct {
	pool    *pgxpool.Pool
	running *semaphore.Weighted // statements: cookies that clients make up leave the other connections free
}

func newSessions(pool *pgxpool.Pool) sessions {
	return sessions{pool: pool, running: semaphore.NewWeighted(1)}
}

const findSessionSQL = `SELECT k.key_id, k.person_id, k.role, k.name, s.notice, s.undo
FROM console_sessions s JOIN person_keys k USING (key_id)
WHERE s.token_hash = $1 AND s.ends_at > $2 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)`

// find returns the session of a request; nil: there is none, or it has ended.
func (s sessions) find(ctx context.Context, r *http.Request, now time.Time) (*session, error) {
	hash := tokenHash(r)
	if hash == nil {
		return nil, nil
	}
	if err := s.running.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("find session: %w", err)
	}
	defer s.running.Release(1)
	found := &session{hash: hash}
	var stored, undoing []byte
	u := &found.user
	err := s.pool.QueryRow(ctx, findSessionSQL, hash, now).Scan(&u.KeyID, &u.ID, &u.Role, &u.Name, &stored, &undoing)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find session: %w", err)
	}
	for text, into := range map[string]any{string(stored): &found.notice, string(undoing): &found.undo} {
		if text != "" {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				return nil, fmt.Errorf("decode session: %w", err)
			}
		}
	}
	return found, nil
}

// tokenHash returns the hash under which the session of a request is stored; nil without a cookie.
func tokenHash(r *http.Request) []byte {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	token, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(token) != sha256.Size {
		return nil
	}
	hash := sha256.Sum256(token)
	return hash[:]
}

// begin makes a session of a key, and returns its token. It ends the session that the browser had.
func (s sessions) begin(ctx context.Context, old []byte, keyID uuid.UUID, now time.Time) (string, error) {
	token := make([]byte, sha256.Size)
	_, _ = rand.Read(token) // never fails: it aborts the program instead
	hash := sha256.Sum256(token)
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM console_sessions WHERE token_hash = $1`, old)
	batch.Queue(`INSERT INTO console_sessions (token_hash, key_id, began_at, ends_at) VALUES ($1, $2, $3, $4)`, hash[:], keyID,
		now, now.Add(sessionTime))
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return "", fmt.Errorf("begin session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(token), nil
}

// end ends a session.
func (s sessions) end(ctx context.Context, hash []byte) error {
	if _, err := s.pool.Exec(ctx, `DELETE FROM console_sessions WHERE token_hash = $1`, hash); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

// remember keeps the outcome of an action for the next page. nil: the undo of before stays.
func (s sessions) remember(ctx context.Context, of *session, n notice, u *undo) error {
	stored, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode notice: %w", err)
	}
	var undoing []byte
	if u != nil {
		if undoing, err = json.Marshal(u); err != nil {
			return fmt.Errorf("encode undo: %w", err)
		}
	}
	_, err = s.pool.Exec(ctx, `UPDATE console_sessions
SET notice = $2, undo = coalesce($3, undo), changed_at = statement_timestamp() WHERE token_hash = $1`, of.hash, stored,
		undoing)
	if err != nil {
		return fmt.Errorf("remember an outcome: %w", err)
	}
	return nil
}

// forget removes the notice that a page has shown, or the undo that was carried out.
func (s sessions) forget(ctx context.Context, of *session, column string) error {
	if _, err := s.pool.Exec(ctx, `UPDATE console_sessions SET `+column+` = NULL WHERE token_hash = $1`, of.hash); err != nil {
		return fmt.Errorf("forget %s: %w", column, err)
	}
	return nil
}

// Metrics are the metrics of the console.
type Metrics struct{ signIns *prometheus.CounterVec }

// NewMetrics returns unregistered metrics.
func NewMetrics() *Metrics {
	return &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "novelgate_console_sign_ins_total",
		Help: "Attempts to sign in to the console by outcome: ok, refused (the key), limited (too many attempts).",
	}, []string{"outcome"})}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) { m.signIns.Describe(descs) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) { m.signIns.Collect(metrics) }

// attempts limits the attempts to sign in from an address: ten, and then one in six seconds.
type attempts struct {
	limits *lru.Cache[netip.Addr, *rate.Limiter]
}

func newAttempts() attempts {
	const addresses = 10_000
	limits, err := lru.New[netip.Addr, *rate.Limiter](addresses)
	if err != nil {
		panic(err) // addresses is positive
	}
	return attempts{limits}
}

// allowed reports whether the client of a request may try a key now.
func (a attempts) allowed(r *http.Request, now time.Time) bool {
	const burst, interval = 10, 6 * time.Second
	address := client(r)
	made := rate.NewLimiter(rate.Every(interval), burst)
	if limit, ok, _ := a.limits.PeekOrAdd(address, made); ok {
		a.limits.Get(address) // is used
		made = limit
	}
	return made.AllowN(now, 1)
}

// client returns the address of a client. From a proxy on the same machine or network it is what this has added to
// X-Forwarded-For, whatever the client has put before it. Of IPv6 it is the network, within which a client may choose.
func client(r *http.Request) netip.Addr {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	address, _ := netip.ParseAddr(host)
	forwarded := r.Header.Values("X-Forwarded-For")
	if len(forwarded) > 0 && (address.IsLoopback() || address.IsPrivate()) {
		list := strings.Split(forwarded[len(forwarded)-1], ",")
		last := strings.TrimSpace(list[len(list)-1])
		if withPort, err := netip.ParseAddrPort(last); err == nil {
			address = withPort.Addr()
		} else if alone, err := netip.ParseAddr(last); err == nil {
			address = alone
		}
	}
	if address = address.Unmap(); address.Is6() {
		network, _ := address.Prefix(64)
		address = network.Addr()
	}
	return address
}

// signInBody is what the page of the sign-in shows.
type signInBody struct {
	To, Problem string
	Insecure    bool // the browser will not keep the cookie
}

func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	c.render(w, r, nil, &view{template: "sign-in", title: "Sign in", body: signInBody{
		To: local(r.URL.Query().Get("to")),
		// Browsers send this header only to where they keep secure cookies: over https, and on their own machine.
		Insecure: r.Header.Get("Sec-Fetch-Site") == "",
	}})
}

// signIn takes a key, and makes a session of it.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	ctx, now := r.Context(), c.Kit.Now()
	const maxSignIn = 4 << 10
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	key, to := strings.TrimSpace(r.PostFormValue("key")), local(r.PostFormValue("to"))
	refuse := func(status int, outcome, why string, err error) {
		c.Metrics.signIns.WithLabelValues(outcome).Inc()
		known, _ := auth.ParseKey(key) // what has not the form of a key may be a password, or most of a key
		c.Kit.Logger.WarnContext(ctx, "sign-in refused", slog.String("requestId", web.RequestID(ctx)),
			slog.String("client", client(r).String()), slog.Any("key", known), slog.Any("error", err))
		c.render(w, r, nil, &view{
			template: "sign-in", title: "Sign in", status: status, body: signInBody{To: to, Problem: why},
		})
	}
	if !c.attempts.allowed(r, now) {
		w.Header().Set("Retry-After", "6")
		refuse(http.StatusTooManyRequests, "limited", "Too many attempts. Wait a minute.", errors.New("too many attempts"))
		return
	}
	user, err := c.Keys.AuthenticateStaffUser(ctx, key)
	switch {
	case errors.Is(err, auth.ErrMalformed):
		refuse(http.StatusUnauthorized, "refused",
			"This is not a key of staff or of an auditor: those begin with ngs_ or nga_.", err)
		return
	case errors.Is(err, auth.ErrUnknown), errors.Is(err, auth.ErrExpired):
		refuse(http.StatusUnauthorized, "refused", problem.Sentence(err), err)
		return
	case err != nil:
		c.refuse(w, r, nil, err)
		return
	}
	token, err := c.sessions.begin(ctx, tokenHash(r), user.KeyID, now)
	if err != nil {
		c.refuse(w, r, nil, err)
		return
	}
	c.Metrics.signIns.WithLabelValues("ok").Inc()
	c.Kit.Logger.InfoContext(ctx, "signed in to the console", slog.String("name", user.Name),
		slog.String("role", user.Role), slog.String("keyId", user.KeyID.String()), slog.String("client", client(r).String()))
	http.SetCookie(w, newCookie(token, int(sessionTime.Seconds())))
	c.lead(w, r, cmp.Or(to, "/queue/reported"))
}

// signOut ends the session of the browser.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if err := c.sessions.end(r.Context(), tokenHash(r)); err != nil {
		c.refuse(w, r, nil, err)
		return
	}
	http.SetCookie(w, newCookie("", -1))
	c.lead(w, r, "/sign-in")
}

func newCookie(token string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: token, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode,
	}
}
