package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/title"
)

// commentID packs the round, the connection and the ordinal number of a comment into 64 bits.
type commentID uint64

// Numbers of rounds that are not measured.
const (
	firstRound   = 0         // one comment on each novel, sent before all rounds
	preloadRound = 1<<16 - 1 // comments that are written to the database without requests
)

func newCommentID(round uint16, connection, ordinal int) commentID {
	const connectionBits, ordinalBits = 12, 36
	return commentID(round)<<(connectionBits+ordinalBits) | commentID(connection)<<ordinalBits | commentID(ordinal) //nolint:gosec // both are small
}

// appendKey appends the idempotency key of a comment. It looks random, like the event ids of partners.
func (id commentID) appendKey(b []byte) []byte {
	// The finaliser of SplitMix64 is a bijection, so different comments have different keys.
	z := uint64(id) + 0x9e3779b97f4a7c15
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

// titleOf returns the title of novel i, which no other novel has.
func titleOf(i int) string {
	return titleBegin[i%len(titleBegin)] + " " + titleEnd[i/len(titleBegin)%len(titleEnd)] + ", Book " + strconv.Itoa(i+1)
}

// contents are the texts of the comments, of 250 to 350 characters.
var contents = sync.OnceValue(func() []string {
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // not a secret
	list := make([]string, 512)
	for i := range list {
		size := 250 + rng.IntN(90)
		text := make([]byte, 0, 350)
		for len(text) < size {
			text = append(text, words[rng.IntN(len(words))]...)
			if rng.IntN(9) == 0 {
				text = append(text, '.')
			}
			text = append(text, ' ')
		}
		list[i] = string(append(text[:len(text)-1], '!'))
	}
	return list
})

// comment has the random parts of a comment.
type comment struct {
	user    int
	content string
	chapter int // -1: about the novel as a whole
	written time.Time
}

// newComment returns a comment that was written at most oldest before now.
func newComment(rng *rand.Rand, now time.Time, oldest time.Duration) comment {
	const users, chapters, numbered = 5000, 400, 300
	c := comment{
		user: rng.IntN(users), content: contents()[rng.IntN(len(contents()))], chapter: rng.IntN(chapters),
		written: now.Add(-time.Duration(rng.Int64N(int64(oldest)))).UTC(),
	}
	if c.chapter >= numbered {
		c.chapter = -1
	}
	return c
}

// composer composes the requests of a connection.
type composer struct {
	head    string // of the request for a comment, up to the value of Idempotency-Key
	get     []byte // the request of a reader
	rng     *rand.Rand
	request []byte
	body    []byte
}

func newComposer(config loadConfig, connection int) *composer {
	return &composer{
		head: "POST /api/integrations/posts HTTP/1.1\r\nHost: " + config.Host + "\r\nAuthorization: Bearer " +
			config.APIKey + "\r\nContent-Type: application/json\r\nIdempotency-Key: ",
		get: []byte("GET " + config.Path + " HTTP/1.1\r\nHost: " + config.Host + "\r\n\r\n"),
		rng: rand.New(rand.NewPCG(uint64(config.Round), uint64(connection))), //nolint:gosec // not a secret, never negative
	}
}

// compose returns the request that delivers a comment, valid until the next call. parent is only used for a reply.
func (c *composer) compose(id commentID, title string, reply bool, parent commentID, now time.Time) []byte {
	c.writeBody(title, reply, parent, now)
	r := id.appendKey(append(c.request[:0], c.head...))
	r = fmt.Appendf(r, "\r\nContent-Length: %d\r\n\r\n", len(c.body))
	c.request = append(r, c.body...)
	return c.request
}

// writeBody sets body to the JSON of a new comment.
func (c *composer) writeBody(title string, reply bool, parent commentID, now time.Time) {
	made := newComment(c.rng, now, time.Hour)
	b := fmt.Appendf(c.body[:0], `{"uuid":"user-%d","username":"Reader %[1]d","novel":"%s","content":"%s","timestamp":"%s"`,
		made.user, title, made.content, made.written.Format(time.RFC3339))
	if made.chapter >= 0 {
		b = fmt.Appendf(b, `,"chapterNumber":%d`, made.chapter)
	}
	if reply {
		b = append(b, `,"parent_uuid":"`...)
		b = append(parent.appendKey(b), '"')
	}
	c.body = append(b, '}')
}

// pastComments generates the comments that one writer of copyRows stores without requests.
type pastComments struct {
	integration uuid.UUID
	replies     float64 // share of comments that are replies
	now         time.Time
	writer, n   int
	novels      []pastNovel
	rng         *rand.Rand
}

// pastNovel is a novel with such comments.
type pastNovel struct {
	slug     string
	novelID  uuid.UUID
	threadID uuid.UUID
	latest   []uuid.UUID // comments of this writer, the newest last
}

func newPastComments(integration uuid.UUID, titles, writer int, replies float64) *pastComments {
	p := &pastComments{
		integration: integration, replies: replies, now: time.Now(), writer: writer, novels: make([]pastNovel, titles),
		rng: rand.New(rand.NewPCG(preloadRound, uint64(writer))), //nolint:gosec // not a secret, never negative
	}
	for i := range p.novels {
		id := events.NovelID(title.Fold(titleOf(i)))
		p.novels[i] = pastNovel{slug: title.Slug(titleOf(i)), novelID: id, threadID: events.ThreadID(id)}
	}
	return p
}

// next returns a comment, its idempotency key and the slug of its novel. The parent of a reply is one of the writer's
// latest twenty comments on the novel.
func (p *pastComments) next() (key, slug string, c events.PostImported) {
	const recent = 20
	p.n++
	key = string(newCommentID(preloadRound, p.writer, p.n).appendKey(nil))
	novel := &p.novels[p.rng.IntN(len(p.novels))]
	made := newComment(p.rng, p.now, 365*24*time.Hour)
	user := strconv.Itoa(made.user)
	c = events.PostImported{
		IntegrationID: p.integration, NovelID: novel.novelID, ThreadID: novel.threadID,
		WrittenAt: made.written.Truncate(time.Microsecond),
		Comment:   &events.Comment{ExternalUUID: "user-" + user, Username: "Reader " + user, Content: made.content},
	}
	if made.chapter >= 0 {
		c.ChapterNumber = jsontext.Value(strconv.Itoa(made.chapter))
	}
	if len(novel.latest) > 0 && p.rng.Float64() < p.replies {
		parent := novel.latest[p.rng.IntN(len(novel.latest))]
		c.ParentPostID = &parent
	}
	if len(novel.latest) == recent {
		novel.latest = novel.latest[:copy(novel.latest, novel.latest[1:])]
	}
	novel.latest = append(novel.latest, events.PostID(p.integration, key))
	return key, novel.slug, c
}
