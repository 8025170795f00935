package contest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/title"
)

// origin identifies a comment of a benchmark: the run, the connection and the ordinal there, packed into 64 bits.
type origin uint64

func newOrigin(run uint16, connection, ordinal int) origin {
	const connectionBits, ordinalBits = 12, 36
	return origin(run)<<(connectionBits+ordinalBits) | origin(connection)<<ordinalBits | origin(ordinal) //nolint:gosec // both are small
}

// appendKey appends the idempotency key of a comment: as unlike its neighbours as the event ids of a partner are.
func (o origin) appendKey(b []byte) []byte {
	// The finaliser of SplitMix64 is a bijection, so different origins have different keys.
	z := uint64(o) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return fmt.Appendf(b, "comment-%016x", z^z>>31)
}

var (
	titleBegin = []string{
		"The Lantern", "A Winter", "The Cartographer", "Salt and Ash", "The Ninth Gate", "Children", "The Quiet Sword",
		"An Orchard",
	}
	titleEnd = []string{
		"of Ashford", "Without Kings", "at the Edge of Rain", "of the Hollow Sea", "in Exile", "Beyond the Pale Court",
	}
	words = []string{
		"the", "chapter", "was", "slower", "than", "I", "expected", "but", "ending", "made", "up", "for", "it", "author",
		"really", "knows", "how", "to", "write", "dialogue", "and", "this", "character", "keeps", "growing", "on", "me",
		"after", "that", "battle", "scene", "translation", "feels", "smooth", "again", "thanks", "waiting", "next", "one",
		"did", "anyone", "else", "notice", "hint", "about", "sister",
	}
)

// Title returns the title of one of the novels that comments are about. Each i has its own.
func Title(i int) string {
	return titleBegin[i%len(titleBegin)] + " " + titleEnd[i/len(titleBegin)%len(titleEnd)] + ", Book " + strconv.Itoa(i+1)
}

// Content returns a comment of 250 to 350 characters. The same rng gives the same comments.
func Content(rng *rand.Rand) string {
	size := 250 + rng.IntN(90)
	text := make([]byte, 0, 350)
	for len(text) < size {
		text = append(text, words[rng.IntN(len(words))]...)
		if rng.IntN(9) == 0 {
			text = append(text, '.')
		}
		text = append(text, ' ')
	}
	return string(append(text[:len(text)-1], '!'))
}

const (
	users    = 5000 // write the comments
	chapters = 400  // of the comments about 300 and later ones are about the novel as a whole
	numbered = 300
)

// composer writes the requests of a connection.
type composer struct {
	head     string // request line and header up to the value of Idempotency-Key
	get      []byte // the request of a reader
	contents []string
	rng      *rand.Rand
	request  []byte
	body     []byte
}

func newComposer(config loadConfig, contents []string, rng *rand.Rand) *composer {
	return &composer{
		head: "POST /api/integrations/posts HTTP/1.1\r\nHost: " + config.Host + "\r\nAuthorization: Bearer " +
			config.APIKey + "\r\nContent-Type: application/json\r\nIdempotency-Key: ",
		get:      []byte("GET " + config.Path + " HTTP/1.1\r\nHost: " + config.Host + "\r\n\r\n"),
		contents: contents, rng: rng,
	}
}

// compose returns the request that delivers a comment, valid until the next call. parent is only used for a reply.
func (c *composer) compose(own origin, title string, reply bool, parent origin, now time.Time) []byte {
	user := c.rng.IntN(users)
	written := now.UTC().Add(-time.Duration(c.rng.IntN(3600)) * time.Second)
	b := fmt.Appendf(c.body[:0], `{"uuid":"user-%d","username":"Reader %d","novel":"%s","content":"%s","timestamp":"%s"`,
		user, user, title, c.contents[c.rng.IntN(len(c.contents))], written.Format(time.RFC3339))
	if chapter := c.rng.IntN(chapters); chapter < numbered {
		b = fmt.Appendf(b, `,"chapterNumber":%d`, chapter)
	}
	if reply {
		b = append(b, `,"parent_uuid":"`...)
		b = append(parent.appendKey(b), '"')
	}
	c.body = append(b, '}')
	r := own.appendKey(append(c.request[:0], c.head...))
	r = fmt.Appendf(r, "\r\nContent-Length: %d\r\n\r\n", len(c.body))
	c.request = append(r, c.body...)
	return c.request
}

// Past makes comments that were delivered before the benchmark, for one writer of them.
type Past struct {
	integration uuid.UUID
	now         time.Time
	writer, n   int
	novels      []pastNovel
	rng         *rand.Rand
}

// pastNovel is one that comments are about.
type pastNovel struct {
	title    string
	slug     string
	novelID  uuid.UUID
	threadID uuid.UUID
	latest   []uuid.UUID // of this writer's comments, the newest last
}

// pastRun is the number of a load that is never run.
const pastRun = 1<<16 - 1

// NewPast makes comments on so many novels, as Title names them.
func NewPast(integration uuid.UUID, titles, writer int, now time.Time) *Past {
	p := &Past{
		integration: integration, now: now, writer: writer, novels: make([]pastNovel, titles),
		rng: rand.New(rand.NewPCG(pastRun, uint64(writer))), //nolint:gosec // not a secret, never negative
	}
	for i := range p.novels {
		id := events.NovelID(title.Fold(Title(i)))
		p.novels[i] = pastNovel{title: Title(i), slug: title.Slug(Title(i)), novelID: id, threadID: events.ThreadID(id)}
	}
	return p
}

// Next returns a comment, its idempotency key and the slug of its novel. Three in ten answer one of the latest twenty
// on their novel.
func (p *Past) Next() (key, slug string, c events.PostImported) {
	const recent = 20
	p.n++
	key = string(newOrigin(pastRun, p.writer, p.n).appendKey(nil))
	user := strconv.Itoa(p.rng.IntN(users))
	novel := &p.novels[p.rng.IntN(len(p.novels))]
	c = events.PostImported{
		IntegrationID: p.integration, NovelID: novel.novelID, ThreadID: novel.threadID,
		WrittenAt: p.now.Add(-time.Duration(p.rng.Int64N(int64(365 * 24 * time.Hour)))).UTC().Truncate(time.Microsecond),
		Comment:   &events.Comment{ExternalUUID: "user-" + user, Username: "Reader " + user, Content: Content(p.rng)},
	}
	if chapter := p.rng.IntN(chapters); chapter < numbered {
		c.ChapterNumber = jsontext.Value(strconv.Itoa(chapter))
	}
	if len(novel.latest) > 0 && p.rng.IntN(10) < 3 {
		parent := novel.latest[p.rng.IntN(len(novel.latest))]
		c.ParentPostID = &parent
	}
	if len(novel.latest) == recent {
		novel.latest = novel.latest[:copy(novel.latest, novel.latest[1:])]
	}
	novel.latest = append(novel.latest, events.PostID(p.integration, key))
	return key, novel.slug, c
}
