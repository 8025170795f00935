package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"novelgate/internal/testdb"
)

// filesOf returns the flags for the key and the memory of a service.
func filesOf(s *Service) []string {
	flags := strings.Split(strings.Join(s.cmd.Args, "\n"), "--data-dir\n") // the last one counts
	dir, _, _ := strings.Cut(flags[len(flags)-1], "\n")
	return []string{"--data-dir", dir}
}

// startMirrored starts an origin and a mirror of it, with one public URL, as behind a proxy.
func startMirrored(t testing.TB) (origin, mirror *Service) {
	t.Helper()
	return startMirroredOn(t, testdb.New(t), testdb.New(t))
}

// startMirroredOn does the same on two databases.
func startMirroredOn(t testing.TB, database, mirrored string, flags ...string) (origin, mirror *Service) {
	t.Helper()
	flags = append(flags, "--public-url", publicURL)
	origin = Start(t, database, flags...)
	mirror = Start(t, mirrored, append(mirrorFlags(t, origin, database), flags...)...)
	testdb.Eventually(t, "the mirror serves a checkpoint", func() bool {
		status, _ := Get(t, mirror.URL+"/ledger/checkpoint")
		return status == http.StatusOK
	})
	return origin, mirror
}

// waiting are the flags of handover and promote on a server that tests share, because their transactions delay the
// ledgers. The time is less than a test gives a command.
var waiting = []string{"--wait", (patience - time.Minute).String()}

// handOverTo hands over to a mirror and returns the file.
func handOverTo(t testing.TB, origin, mirror *Service) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "handover")
	origin.MustCLI(t, slices.Concat([]string{"handover", file, "--to", mirror.URL}, waiting, filesOf(origin))...)
	return file
}

// promote promotes a mirror with a file or flags.
func (s *Service) promote(t testing.TB, args ...string) Output {
	t.Helper()
	return s.MustCLI(t, slices.Concat([]string{"promote"}, args, waiting, filesOf(s))...)
}

// checkpointOf returns the newest checkpoint that a service serves.
func checkpointOf(t testing.TB, s *Service) string {
	t.Helper()
	status, body := Get(t, s.URL+"/ledger/checkpoint")
	if status != http.StatusOK {
		t.Fatalf("/ledger/checkpoint is %d", status)
	}
	return body
}

// published is what /ledger/origins says.
type published struct {
	Origins    []struct{ Origin string }
	Promotions []struct {
		ID, Origin, NextOrigin string
		Entries, KnownEntries  int64
	}
	Handover *string
	Standby  bool
}

func originsOf(t testing.TB, s *Service) (p published) {
	t.Helper()
	answer := s.Send(t, Request{Path: "/ledger/origins"})
	answer.WantJSON(t, http.StatusOK, &p)
	if caching := answer.Header.Get("Cache-Control"); caching != "no-store" {
		t.Errorf("what a promotion asks may be cached: %s", caching)
	}
	return p
}

// TestHandover: under load, an origin hands over to its mirror. No acknowledged command is lost or carried out twice,
// the ledger goes on under its name and key, and another mirror follows the promoted one.
func TestHandover(t *testing.T) {
	t.Parallel()
	origin, mirror := startMirrored(t)
	flags := mirrorFlags(t, origin, origin.DatabaseURL)
	second := Start(t, testdb.New(t), flags...)
	load := newLoad(t, newPartner(t, origin.DatabaseURL))
	w := &witness{stalls: watchStalls(t)}
	load.watch, load.pause = w.see, 2*time.Millisecond
	load.aim(origin)
	load.start(8)
	load.book.await(200)
	before := checkpointOf(t, origin)

	began := time.Now()
	file := handOverTo(t, origin, mirror)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info, err)
	}
	final := checkpointOf(t, origin)
	if got := checkpointOf(t, mirror); got != final {
		t.Errorf("the mirror serves\n%s, and the origin\n%s", got, final)
	}
	mirror.promote(t, file)
	load.aim(mirror)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	load.book.await(200)
	t.Logf("no command was acknowledged for %v", interruption(w, began))

	// The old origin refuses, also after a restart and without its service.
	p := load.Partner
	refused := origin.Send(t, p.Request(PostsPath, Key(), Comment(Unique("Late")).JSON(t)))
	wantHandedOver(t, refused, mirror.URL)
	if out := origin.Refused(t, "integration", "create", "late"); !strings.Contains(out.Stderr, mirror.URL) {
		t.Errorf("the command line of the old origin: %s", out.Stderr)
	}
	restarted := Start(t, origin.DatabaseURL, origin.cmd.Args[slices.Index(origin.cmd.Args, "--data-dir"):]...)
	wantHandedOver(t, restarted.Send(t, p.Request(PostsPath, Key(), Comment(Unique("Late")).JSON(t))), mirror.URL)

	seen := load.settle(t, mirror, mirror.DatabaseURL)
	if seen.acknowledged < 400 {
		t.Errorf("%d commands were acknowledged", seen.acknowledged)
	}
	awaitSealed(t, mirror.DatabaseURL)
	wantExtended(t, mirror, before, final)
	if before, now := strings.Split(final, "\n")[0], strings.Split(checkpointOf(t, mirror), "\n")[0]; now != before {
		t.Errorf("the ledger of %s goes on as %s", before, now)
	}
	mirror.MustCLI(t, "events", "verify", "--key", flags[3])

	args := append([]string{"--mirror", mirror.URL}, flags[2:]...)
	second.Stop(t)
	second = Start(t, second.DatabaseURL, args...)
	wantMirrored(t, mirror.URL, mirror.DatabaseURL, second.URL, second.DatabaseURL)
}

// interruption is the longest time without an acknowledged command since a moment.
func interruption(w *witness, began time.Time) (longest time.Duration) {
	var done []time.Time
	for _, a := range w.between(began.Add(-time.Second), time.Now()) {
		if a.succeeded() {
			done = append(done, a.sent.Add(a.took))
		}
	}
	slices.SortFunc(done, time.Time.Compare)
	for i := 1; i < len(done); i++ {
		longest = max(longest, done[i].Sub(done[i-1]))
	}
	return longest.Round(time.Millisecond)
}

// wantHandedOver wants the answer of a service that another one continues.
func wantHandedOver(t testing.TB, a Response, successor string) {
	t.Helper()
	var problem struct {
		Code, Origin string
		Retryable    bool
	}
	err := json.Unmarshal(a.Body, &problem)
	if err != nil || a.Status != http.StatusServiceUnavailable || problem.Code != "unavailable" || !problem.Retryable ||
		problem.Origin != successor || a.Header.Get("Retry-After") == "" {
		t.Errorf("the old origin answers %d %s", a.Status, a.Body)
	}
}

// wantExtended wants the ledger of a service to extend checkpoints, by its public tiles.
func wantExtended(t testing.TB, s *Service, checkpoints ...string) {
	t.Helper()
	for _, older := range checkpoints {
		file := filepath.Join(t.TempDir(), "older")
		if err := os.WriteFile(file, []byte(older), 0o600); err != nil {
			t.Fatal(err)
		}
		s.MustCLI(t, "events", "verify", "--against", file)
	}
}

// TestLostOrigin: an origin is gone with events that its mirror lacks. The mirror is promoted and says which signed
// events are lost; the old database names exactly all that are. It finds the promotion when it returns, and refuses
// commands, also after that. Its partners repeat what they have at the promoted mirror.
func TestLostOrigin(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	origin, mirror := startMirrored(t)
	p := newPartner(t, origin.DatabaseURL)
	title, first := Unique("Lost"), Key()
	posted := p.at(origin).Import(t, first, Comment(title)).WantPost(t, 201)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	second := startMirror(t, origin)
	awaitSealed(t, origin.DatabaseURL)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	second.Stop(t)
	args := mirror.cmd.Args[slices.Index(mirror.cmd.Args, "--data-dir"):]
	mirror.Stop(t)
	had := value[int64](t, mirror.DatabaseURL, `SELECT count(*) FROM events`)
	var lost []string
	for range 7 {
		lost = append(lost, Key())
		p.at(origin).Import(t, lost[len(lost)-1], Comment(title)).WantPost(t, 201)
	}
	awaitSealed(t, origin.DatabaseURL)
	newest := filepath.Join(t.TempDir(), "newest")
	if err := os.WriteFile(newest, []byte(checkpointOf(t, origin)), 0o600); err != nil {
		t.Fatal(err)
	}
	origin.kill()
	// What the origin has accepted and not signed yet.
	unsigned := Start(t, origin.DatabaseURL, "--pause-ledger", "--public-url", publicURL)
	lost = append(lost, Key())
	p.at(unsigned).Import(t, lost[len(lost)-1], Comment(title)).WantPost(t, 201)
	unsigned.Stop(t)

	mirror = Start(t, mirror.DatabaseURL, args...)
	promote := []string{"--lost-origin", "--checkpoint", newest, "--json"}
	said := mirror.promote(t, promote...)
	var promotion struct {
		Entries, KnownEntries int64
		Lost                  bool
		Origin, NextOrigin    string
	}
	if err := json.Unmarshal([]byte(said.Stdout), &promotion); err != nil || !promotion.Lost || promotion.Entries != had ||
		promotion.KnownEntries != had+7 || promotion.Origin == promotion.NextOrigin {
		t.Errorf("promote: %+v %v\n%s", promotion, err, said.Stdout)
	}
	again := mirror.promote(t, promote...)
	if again.Stdout != said.Stdout {
		t.Errorf("the second time it says\n%s", again.Stdout)
	}
	if got := originsOf(t, mirror); len(got.Origins) != 2 || got.Origins[1].Origin != promotion.NextOrigin ||
		len(got.Promotions) != 1 || got.Promotions[0].Entries != had {
		t.Errorf("/ledger/origins: %+v", got)
	}
	replay := p.at(mirror).Import(t, first, Comment(title)).WantPost(t, 200)
	if replay.PostID != posted.PostID {
		t.Errorf("a retry of %s is another post", first)
	}

	// The old origin returns.
	returned := Start(t, origin.DatabaseURL, "--public-url", publicURL, "--successor", mirror.URL)
	wantHandedOver(t, p.at(returned).Import(t, Key(), Comment(title)), mirror.URL)
	returned.Stop(t)
	fenced := Start(t, origin.DatabaseURL, "--public-url", publicURL)
	wantHandedOver(t, p.at(fenced).Import(t, Key(), Comment(title)), mirror.URL)

	var named []struct{ ID, Type string }
	origin.runJSON(t, &named, "events", "lost", "--to", mirror.URL)
	var keys []string
	for _, e := range named {
		if e.Type == "post.imported.v1" {
			keys = append(keys, e.ID)
		}
	}
	slices.Sort(keys)
	slices.Sort(lost)
	if !slices.Equal(keys, lost) || len(named) != len(lost) {
		t.Errorf("named as lost: %v, want %v", named, lost)
	}
	for _, key := range lost {
		p.at(mirror).Import(t, key, Comment(title)).WantPost(t, 201)
	}
	awaitSealedAs(t, mirror, promotion.NextOrigin)
	mirror.MustCLI(t, "events", "verify")
	// Another mirror follows, once its operator trusts the new key.
	second = Start(t, second.DatabaseURL, mirrorFlags(t, mirror, mirror.DatabaseURL)...)
	testdb.Eventually(t, "the other mirror has all events", func() bool {
		return value[int64](t, second.DatabaseURL, `SELECT tree_size FROM mirror`) ==
			value[int64](t, mirror.DatabaseURL, `SELECT max(tree_size) FROM ledger_checkpoints`)
	})
	wantMirrored(t, mirror.URL, mirror.DatabaseURL, second.URL, second.DatabaseURL)
}

// at returns the partner as a client of another service.
func (p *Partner) at(s *Service) *Partner {
	return &Partner{NewIntegration: p.NewIntegration, Service: s}
}

// awaitSealedAs waits until the ledger has signed all events under an origin.
func awaitSealedAs(t testing.TB, s *Service, origin string) {
	t.Helper()
	testdb.Eventually(t, "everything is signed as "+origin, func() bool {
		return value[bool](t, s.DatabaseURL, `SELECT (SELECT count(*) FROM events) =
			(SELECT coalesce(max(tree_size), 0) FROM ledger_checkpoints WHERE origin = $1)`, origin)
	})
}

// TestHandoverWebhooks: webhooks move with their secrets. The promoted mirror sends what the origin could not deliver,
// and what happens after the promotion; nothing that was delivered before is sent again.
func TestHandoverWebhooks(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	origin, mirror := startMirroredOn(t, testdb.New(t), testdb.New(t), "--webhook-allow-cidr", "127.0.0.1/32",
		"--webhook-retries", "1s")
	p, ada := origin.NewPartner(t), origin.NewStaff(t)
	var mu sync.Mutex
	var open bool
	var secret string
	taken, refused := map[string]int{}, map[string]int{}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil {
			t.Errorf("not verified: %v", err)
		}
		if !open {
			refused[r.Header.Get("Webhook-Id")]++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		taken[r.Header.Get("Webhook-Id")]++
	}))
	t.Cleanup(endpoint.Close)
	set := func(accept bool) {
		mu.Lock()
		defer mu.Unlock()
		open = accept
	}
	count := func(of map[string]int) int {
		mu.Lock()
		defer mu.Unlock()
		return len(of)
	}
	hook := p.NewWebhook(t, endpoint.URL)
	mu.Lock()
	secret = hook.Secret
	mu.Unlock()
	novel := p.Upsert(t, Key(), Fields{"novel": Unique("Hooked")}).WantNovel(t, 201)
	moderate := func(s *Service, verb string) {
		t.Helper()
		s.Send(t, Request{
			Method: http.MethodPost, Path: "/api/admin/novels/" + novel.NovelID + "/" + verb, Bearer: ada.APIKey, Key: Key(),
			ContentType: "application/json", Body: Fields{"reason": "r"}.JSON(t),
		}).WantJSON(t, 200, &struct{}{})
	}
	set(true)
	moderate(origin, "reject")
	testdb.Eventually(t, "the first change is delivered", func() bool { return count(taken) == 1 })
	set(false)
	moderate(origin, "approve")
	testdb.Eventually(t, "the second change is refused", func() bool {
		return count(refused) == 1 && p.Webhook(t, hook.WebhookID).Retrying == 1
	})

	file := handOverTo(t, origin, mirror)
	mirror.promote(t, file)
	set(true)
	moderate(mirror, "reject")
	testdb.Eventually(t, "three changes are delivered", func() bool { return count(taken) == 3 })
	testdb.Eventually(t, "nothing is left", func() bool {
		w := p.at(mirror).Webhook(t, hook.WebhookID)
		return w.Waiting == 0 && w.Retrying == 0 && w.Enabled && w.URL == endpoint.URL
	})
	mu.Lock()
	defer mu.Unlock()
	for id, times := range taken {
		if times != 1 {
			t.Errorf("%s was sent %d times", id, times)
		}
		delete(refused, id)
	}
	if len(refused) > 0 {
		t.Errorf("refused and never sent again: %v", refused)
	}
}

// TestHandoverAndBack: a mirror of the promoted mirror, in the data directory of the first origin, takes over again.
// The ledger has one name and one key all the time.
func TestHandoverAndBack(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	origin, away := startMirrored(t)
	p, key, title := newPartner(t, origin.DatabaseURL), Key(), Unique("Back")
	first := p.at(origin).Import(t, key, Comment(title)).WantPost(t, 201)
	older := checkpointOf(t, origin)
	keys := mirrorFlags(t, origin, origin.DatabaseURL)[3]
	away.promote(t, handOverTo(t, origin, away))
	origin.Stop(t)
	flags := slices.Concat(mirrorFlags(t, away, away.DatabaseURL), filesOf(origin), []string{"--public-url", publicURL})
	back := Start(t, testdb.New(t), flags...)
	testdb.Eventually(t, "the mirror serves a checkpoint", func() bool {
		status, _ := Get(t, back.URL+"/ledger/checkpoint")
		return status == http.StatusOK
	})
	p.at(away).Import(t, Key(), Comment(title)).WantPost(t, 201)
	// Through a pipe.
	token := away.MustCLI(t, slices.Concat([]string{"handover", "-", "--to", back.URL}, waiting,
		filesOf(away))...).Stdout
	promote := exec.CommandContext(t.Context(), Binary(t), slices.Concat([]string{"promote", "-"}, waiting,
		filesOf(back))...)
	promote.Env = append(promote.Environ(), "NOVELGATE_DATABASE_URL="+back.DatabaseURL)
	promote.Stdin = strings.NewReader(token)
	if out, err := promote.CombinedOutput(); err != nil {
		t.Fatalf("promote -: %v\n%s", err, out)
	}
	p.at(back).Import(t, Key(), Comment(title)).WantPost(t, 201)
	if again := p.at(back).Import(t, key, Comment(title)).WantPost(t, 200); again.PostID != first.PostID {
		t.Errorf("the retry is %s, the comment was %s", again.PostID, first.PostID)
	}
	wantHandedOver(t, p.at(away).Import(t, Key(), Comment(title)), back.URL)
	back.Stop(t)
	back = Start(t, back.DatabaseURL, append(filesOf(back), "--public-url", publicURL, "--successor", away.URL)...)
	p.at(back).Import(t, Key(), Comment(title)).WantPost(t, 201)
	awaitSealed(t, back.DatabaseURL)
	wantExtended(t, back, older)
	back.MustCLI(t, "events", "verify", "--key", keys)
	if got := originsOf(t, back); len(got.Origins) != 1 || len(got.Promotions) != 2 {
		t.Errorf("/ledger/origins: %+v", got)
	}
}
